"""What the first embedding of a process must not wait for: libraries that it does not use."""

import subprocess
import sys
from pathlib import Path

from tests.parity.checkpoints import save
from tests.parity.table import ROWS

BERT = next(row for row in ROWS if row.name == "bert")
# Each takes from a fortieth of a second to most of one.
HEAVY = (
    *("transformers", "torch._dynamo", "torch._decomp", "torch._refs", "sympy"),
    *("PIL", "onnx", "limits", "jwt", "openvino"),
)
FIRST_EMBEDDING = f"""
import sys
from sie_mcp.engine.torch_parts import PARTS, import_torch, is_shell
import_torch()
import torch, sie_mcp.engine.main
from pathlib import Path
from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.checked import load_checked
from sie_mcp.adapters.packing import pack

recipe = create.read_recipe("m", Path(sys.argv[1]), None)
cpu = torch.device("cpu")
adapter = load_checked(recipe, device=cpu, dtype=torch.bfloat16)
request = wire.EncodeRequest(items=[wire.Item(text="fox")])
adapter.forward(pack(adapter.prepare(request).sequences, cpu))
print([name for name in {HEAVY!r} if name in sys.modules])
print([name for name in PARTS if not is_shell(sys.modules[name])])
"""


def test_a_worker_embeds_without_any_library_that_few_models_need(tmp_path: Path) -> None:
    save(BERT, "dense", tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", FIRST_EMBEDDING, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert found.stdout.strip() == "[]\n[]"
