"""Rounding to eight bits with kernels that Triton interprets: a program of its own.

`python -m tests.adapters.interpreted_float8 FOLDER FAMILY…`, with TRITON_INTERPRET=1. The kernel
beside its twin, then whole models with it and without. The interpreter loses a carry where it
rounds to eight bits itself, so that step is torch's here.
"""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from triton.runtime import interpreter

from sie_mcp.adapters import create, float8
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear
from sie_mcp.adapters.layers.kernels import switch
from sie_mcp.adapters.packing import pack
from tests.adapters.interpreted import CPU, KERNELS, LENGTHS, cosine
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

_OWN = interpreter._convert_float


def converted(values, source, target, mode):
    """Convert numbers as the interpreter does, those of eight bits as torch does."""
    if str(target) != "fp8e4nv":
        return _OWN(values, source, target, mode)
    wide = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    return wide.to(FLOAT8).view(torch.uint8).numpy()


def main(folder: Path, *families: str) -> int:
    """Fail where the kernel gives something else than its twin."""
    interpreter._convert_float = converted
    kernels = importlib.import_module(f"{switch.__package__}.rounds")
    difference = kernels.check(CPU, torch.float16)
    assert difference <= kernels.TOLERANCE, difference
    broken = torch.ones(3, 64, dtype=torch.float16)
    broken[1, 5] = float("inf")
    assert kernels.rounded(broken).scales.isfinite().flatten().tolist() == [True, False, True]
    # The interpreter has no bfloat16: here rounding is all that kernels do.
    switch.can_run = lambda x: x.dtype == torch.bfloat16
    used = []
    switch._checked = lambda name, _: used.append(name) or (kernels if name == "rounds" else None)
    kernels.rounded = in_float32(kernels.rounded)
    float8.MIN_NUMBERS = 1
    for name in families:
        save(next(row for row in ROWS if row.name == name), "dense", folder / name)
        recipe = create.read_recipe(name, folder / name, None)
        model = create.load_adapter(recipe, device=CPU, dtype=FLOAT8)._model
        with torch.inference_mode():
            worst = min(lowest(model.encoder))
        # Activations were not rounded to bfloat16 in between, which moves some to the next number.
        assert worst >= 0.99, (name, worst)
    assert "rounds" in used
    return 0


def in_float32(rounded):
    """Let the kernel read bfloat16 numbers as float32."""
    return lambda x, *more: rounded(x.float(), *more)


def lowest(encoder):
    """Yield the lowest cosine of a token's state to the way without kernels, for each batch."""
    assert any(isinstance(one, Float8Linear) for one in encoder.modules())

    for seed, lengths in enumerate(LENGTHS):
        rng = np.random.default_rng(seed)
        plain = pack([Sequence(rng.integers(3, 60, n)) for n in lengths], CPU)
        yield cosine(encoder(replace(plain, paths=KERNELS)), encoder(plain))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
