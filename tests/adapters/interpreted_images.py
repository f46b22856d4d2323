"""Towers for images with kernels that Triton interprets, on the CPU: a program of its own.

`python -m tests.adapters.interpreted_images FOLDER PAIR…`, with TRITON_INTERPRET=1: each pair's
vectors the plain way, with kernels, and as recorded passes read a batch.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.recorded import make_slots
from tests.adapters.interpreted import CPU, KERNELS, cosine, let_kernels_run
from tests.parity.image_towers import FILES, PAIRS, save_pair
from tests.picture_files import encode_images


def main(folder: Path, *names: str) -> int:
    """Fail where a pair's ways are apart by more than rounding."""
    used = let_kernels_run()
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
        assert cosine(in_slots(adapter._vectors._model.vision, plain), expected) >= 0.999, name
    assert {"attend", "norms", "probes"} <= used, used
    return 0


def in_slots(tower, plain):
    """Return the vectors of a pass that reads its batch where a recorded one does."""
    with torch.inference_mode():
        inner = replace(plain, images=None, embedded=tower.embed(plain))
        slots = make_slots(tower(inner), inner.embedded, 1_024)
        slots.fill(inner, inner.laid)
        states = tower(slots.batch(inner.laid.size, inner.laid, KERNELS))
        return tower.finish(states[: plain.num_tokens], plain)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
