"""How far memory rises while a checkpoint is loaded, in a process of its own.

`python -m evals.families.memory FOLDER` prints one JSON object. Linux only: the highest resident
size of a process is read from /proc, where that of its parent does not count.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from sie_mcp.adapters.create import load_adapter, read_recipe, weight_bytes

ROOM_BYTES = 500_000_000
_TIMEOUT_S = 300.0
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Load:
    """What loading took, in bytes.

    Attributes:
        weights: Parameters of the loaded module, float32.
        peak: Highest resident size minus that before the load; mapped files count.
        after: Resident size afterwards minus that before.
    """

    weights: int
    peak: int
    after: int

    @property
    def is_right(self) -> bool:
        """At most the weights and half a gigabyte."""
        return self.peak <= self.weights + ROOM_BYTES


def measure(folder: Path) -> Load:
    """Load the checkpoint in a fresh process."""
    command = [sys.executable, "-m", "evals.families.memory", str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=_TIMEOUT_S)
    return Load(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Load the folder that is the one argument; print the sizes."""
    folder = Path(sys.argv[1])
    device = torch.device("cpu")
    # What torch and the tokenizer take once is not the checkpoint's.
    torch.nn.functional.linear(torch.ones(64, 64), torch.ones(64, 64))
    recipe = read_recipe(folder.name, folder, None)
    before = _resident("VmRSS")
    adapter = load_adapter(recipe, device=device, dtype=torch.float32)
    peak, after = _resident("VmHWM") - before, _resident("VmRSS") - before
    del adapter
    sizes = {"weights": weight_bytes(recipe, torch.float32), "peak": peak, "after": after}
    print(json.dumps(sizes))


def _resident(field: str) -> int:
    """Return a size of this process, in bytes."""
    lines = _STATUS.read_text().splitlines()
    (line,) = (one for one in lines if one.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
