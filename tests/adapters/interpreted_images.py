"""Towers for images with kernels that Triton interprets, on the CPU: a program of its own.

`python -m tests.adapters.interpreted_images FOLDER PAIR…`, with TRITON_INTERPRET=1: each pair's
vectors the plain way and with kernels.
"""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.layers.kernels import attend, switch
from sie_mcp.adapters.packing import pack
from tests.adapters.interpreted import CPU, KERNELS, cosine
from tests.parity.image_towers import FILES, PAIRS, save_pair
from tests.picture_files import encode_images


def main(folder: Path, *names: str) -> int:
    """Fail where a pair's ways are apart by more than rounding."""
    switch.can_run = lambda x: x.dtype == torch.float16
    used = set()

    def unchecked(name, _):
        used.add(name)
        return importlib.import_module(f"{switch.__package__}.{name}")

    switch._checked = unchecked
    attend.HEAD_DIMS = (8, *attend.HEAD_DIMS)
    for name in names:
        pair = next(pair for pair in PAIRS if pair.name == name)
        save_pair(pair, folder / name)
        recipe = create.read_recipe(name, folder / name, None)
        adapter = create.load_adapter(recipe, device=CPU, dtype=torch.float16)
        sequences = adapter.prepare(encode_images(FILES)).sequences
        plain = pack(sequences, CPU, is_laid_out=True)
        with torch.inference_mode():
            expected, found = (
                adapter.forward(batch)["dense"].values
                for batch in (plain, replace(plain, paths=KERNELS))
            )
        assert not torch.equal(found, expected), name
        worst = cosine(found, expected)
        assert worst >= 0.999, (name, worst)
    assert {"attend", "norms", "probes"} <= used, used
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
