"""Residual and norm in one pass: LayerNorm, or scaling by the root mean square.

The sum is normed before it is rounded to half precision, and to eight bits where that is asked for
as well. Twins: torch's layer_norm and rms_norm.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch.nn import functional

from sie_mcp.adapters.layers.float8_linear import FLOAT8, Rounded
from sie_mcp.adapters.layers.kernels.eights import in_eights

# Of half precision, on numbers of size one.
TOLERANCE = 3e-2
_ELEMENTS = 2048


@triton.jit(do_not_specialize=["num_rows"])
def _norm(
    x, added, weight, bias, out, summed, values, scales, num_rows, eps,
    SIZE: tl.constexpr, HAS_ADDED: tl.constexpr, HAS_BIAS: tl.constexpr, KEEPS_SUM: tl.constexpr,
    ROUNDS: tl.constexpr, IS_RMS: tl.constexpr, ONE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (rows < num_rows)[:, None] & (columns < SIZE)[None, :]
    places = rows[:, None] * SIZE + columns[None, :]
    wide = tl.load(x + places, inside, 0.0).to(tl.float32)
    if HAS_ADDED:
        wide += tl.load(added + places, inside, 0.0).to(tl.float32)
    if KEEPS_SUM:
        tl.store(summed + places, wide, inside)
    if not IS_RMS:
        mean = tl.sum(wide, 1) / SIZE
        wide = tl.where(inside, wide - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, 1) / SIZE + eps)
    known = columns < SIZE
    normed = wide * scale[:, None] * (ONE + tl.load(weight + columns, known, 0.0).to(tl.float32))
    if HAS_BIAS:
        normed += tl.load(bias + columns, known, 0.0).to(tl.float32)[None, :]
    tl.store(out + places, normed, inside)
    if ROUNDS:
        eight, scale_of_row = in_eights(normed)
        tl.store(values + places, eight, inside)
        tl.store(scales + rows, scale_of_row, rows < num_rows)


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm's settings: its bias is None and `is_rms` true where no mean is taken off."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float
    is_rms: bool = False
    from_one: bool = False


def normed(x: torch.Tensor, added: torch.Tensor | None, norm: Norm) -> torch.Tensor:
    """Return norm(x + added), `(num_rows, size)`, both contiguous."""
    return _run(x, added, norm, keeps_sum=False)[0]


def normed_and_sum(
    x: torch.Tensor, added: torch.Tensor, norm: Norm
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the norm of the sum, and the sum."""
    return _run(x, added, norm, keeps_sum=True)


def normed_and_rounded(
    x: torch.Tensor, added: torch.Tensor | None, norm: Norm, *, keeps_sum: bool = False
) -> tuple[torch.Tensor, torch.Tensor, Rounded]:
    """Return the norm of the sum, the sum if it is kept, and the norm in eight bits."""
    eight = Rounded(
        torch.empty(x.shape, dtype=FLOAT8, device=x.device),
        torch.empty((len(x), 1), dtype=torch.float32, device=x.device),
    )
    return *_run(x, added, norm, keeps_sum=keeps_sum, eight=eight), eight


def _run(
    x: torch.Tensor,
    added: torch.Tensor | None,
    norm: Norm,
    *,
    keeps_sum: bool,
    eight: Rounded | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    num_rows, size = x.shape
    out = torch.empty_like(x)
    summed = torch.empty_like(x) if keeps_sum else out
    block = triton.next_power_of_2(size)
    rows = max(_ELEMENTS // block, 1)
    values, scales = (out, out) if eight is None else eight
    _norm[(triton.cdiv(num_rows, rows),)](
        x, x if added is None else added, norm.weight,
        norm.weight if norm.bias is None else norm.bias, out, summed, values, scales,
        num_rows, norm.eps,
        SIZE=size, HAS_ADDED=added is not None, HAS_BIAS=norm.bias is not None,
        KEEPS_SUM=keeps_sum, ROUNDS=eight is not None, IS_RMS=norm.is_rms,
        ONE=1.0 if norm.from_one else 0.0, ROWS=rows, BLOCK=block,
        num_warps=8 if block > _ELEMENTS else 4,
    )  # fmt: skip
    return out, summed


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    drawn = [
        torch.randn(shape, generator=generator, device=device).to(dtype)
        for shape in ((37, 384), (37, 384), (384,), (384,))
    ]
    x, added, weight, bias = drawn
    total = x.float() + added.float()
    expected = functional.layer_norm(total, (384,), weight.float(), bias.float(), 1e-5)
    found, summed = normed_and_sum(x, added, Norm(weight, bias, 1e-5))
    scaled = functional.rms_norm(x.float(), (384,), 1 + weight.float(), 1e-6)
    rms = normed(x, None, Norm(weight, None, 1e-6, is_rms=True, from_one=True))
    pairs = ((found, expected), (summed, total), (rms, scaled))
    return max(float(((a - b).abs() / b.abs().clamp(min=1.0)).max()) for a, b in pairs)
