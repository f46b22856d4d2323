"""Whole models with kernels that Triton interprets, on the CPU: a program of its own.

`python -m tests.adapters.interpreted FOLDER FAMILY…`, with TRITON_INTERPRET=1. Each is run the
plain way, with kernels, and as a recorded pass reads it: from fixed places that an earlier batch
was in. Only how a device keeps and replays such a pass is not shown here.
"""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.kernels import attend, switch
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.recorded import make_slots
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

CPU = torch.device("cpu")
KERNELS = frozenset({"kernels"})
RECORDED = ("bert", "roberta", "distilbert", "electra", "modernbert")
LENGTHS = [(3, 4, 9), (1, 15), (20,), (1,)]


def main(folder: Path, *families: str) -> int:
    """Fail where a family's ways are apart by more than rounding."""
    used = let_kernels_run()
    for name in families:
        row = next(row for row in ROWS if row.name == name)
        save(row, "dense", folder / name)
        recipe = create.read_recipe(name, folder / name, None)
        model = create.load_adapter(recipe, device=CPU, dtype=torch.float16)._model
        with torch.inference_mode():
            worst = min(lowest(model.encoder, name in RECORDED))
        assert worst >= 0.999, (name, worst)
    assert {"attend", "norms"} <= used, used
    return 0


def let_kernels_run():
    """Let kernels compute in float16 here; return a set, into which come those that did."""
    switch.can_run = lambda x: x.dtype == torch.float16
    # The interpreter has no bfloat16, in which kernels are checked; in float16 test_kernels does.
    used = set()

    def unchecked(name, _):
        used.add(name)
        return importlib.import_module(f"{switch.__package__}.{name}")

    switch._checked = unchecked
    # Tiny models have heads that no device multiplies well.
    attend.HEAD_DIMS = (8, *attend.HEAD_DIMS)
    return used


def lowest(encoder, is_recorded):
    """Yield the lowest cosine of a token's state to the plain way's, for each batch and way."""
    slots = None
    for seed, lengths in enumerate(LENGTHS):
        rng = np.random.default_rng(seed)
        sequences = [Sequence(rng.integers(3, 60, n)) for n in lengths]
        plain = pack(sequences, CPU, is_laid_out=True)
        expected = encoder(plain)
        yield cosine(encoder(replace(plain, paths=KERNELS)), expected)
        if is_recorded:
            slots = slots or make_slots(expected, None, 128)
            slots.fill(plain, plain.laid)
            found = encoder(slots.batch(plain.laid.size, plain.laid, KERNELS))
            yield cosine(found[: plain.num_tokens], expected)


def cosine(a, b):
    """Return the lowest cosine of two rows."""
    return float(torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=-1).min())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
