"""What the first embedding of a process must not wait for: libraries that it does not use."""

import subprocess
import sys

# Each takes most of a second to import.
HEAVY = ("transformers", "torch._dynamo", "sentence_transformers", "PIL")


def test_adapters_import_no_library_that_few_models_need() -> None:
    code = (
        "import sys, sie_mcp.adapters.create, sie_mcp.adapters.checked;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"
