"""Rows rounded to floats of eight bits, each by its own largest number, in one pass.

What comes in may be activated first, or gated: one half's weight on the other. Twin: `rounded` of
layers/float8_linear.py on what torch's own activations give.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

from sie_mcp.adapters.layers.float8_linear import FLOAT8, Rounded
from sie_mcp.adapters.layers.float8_linear import rounded as plainly
from sie_mcp.adapters.layers.kernels.eights import in_eights
from sie_mcp.adapters.layers.kernels.gates import KINDS, activated
from sie_mcp.adapters.layers.kernels.norms import Norm, normed_and_rounded

# A number between two of the format may go either way, which are an eighth of it apart.
TOLERANCE = 0.13
# Scales that differ in their last digit move what lies just between two numbers, and little else.
_SELDOM = 0.01
_ELEMENTS = 2048
# A row is held in registers.
MAX_SIZE = 16_384


@triton.jit(do_not_specialize=["num_rows"])
def _round(
    x, values, scales, num_rows, SIZE: tl.constexpr, WIDTH: tl.constexpr, KIND: tl.constexpr,
    GATE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (rows < num_rows)[:, None] & (columns < SIZE)[None, :]
    places = x + rows[:, None] * WIDTH + columns[None, :]
    wide = tl.load(places, inside, 0.0).to(tl.float32)
    if GATE == "first":
        wide = activated(wide, KIND) * tl.load(places + SIZE, inside, 0.0).to(tl.float32)
    elif GATE == "second":
        wide = wide * activated(tl.load(places + SIZE, inside, 0.0).to(tl.float32), KIND)
    elif KIND != "":
        wide = activated(wide, KIND)
    eight, scale = in_eights(wide)
    tl.store(values + rows[:, None] * SIZE + columns[None, :], eight, inside)
    tl.store(scales + rows, scale, rows < num_rows)


def rounded(x: torch.Tensor, act: str = "", gate: str = "") -> Rounded:
    """Return rows of eight bits, `(num_rows, size)`, and their scales, `(num_rows, 1)`.

    Args:
        x: `(num_rows, size)`; with a gate `(num_rows, 2 * size)`.
        act: A key of KINDS that is applied first; "": nothing is.
        gate: Which half is activated and weighs the other, "first" or "second"; "": no halves.
    """
    num_rows, width = x.shape
    size = width // 2 if gate else width
    values = torch.empty((num_rows, size), dtype=FLOAT8, device=x.device)
    scales = torch.empty((num_rows, 1), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(size)
    rows = max(_ELEMENTS // block, 1)
    _round[(triton.cdiv(num_rows, rows),)](
        x.contiguous(), values, scales, num_rows, SIZE=size, WIDTH=width,
        KIND=KINDS[act] if act else "", GATE=gate, ROWS=rows, BLOCK=block,
        num_warps=min(max(rows * block // 512, 4), 16),
    )  # fmt: skip
    return Rounded(values, scales)


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch, of a number or of the row's largest."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(37, 2 * 1104, generator=generator, device=device).to(dtype)
    x[3] = 0.0
    a, b = x.float().chunk(2, dim=-1)
    tanh = functional.gelu(b, approximate="tanh")
    pairs = (
        (rounded(x), x),
        (rounded(x[:, :384]), x[:, :384]),
        (rounded(x, "gelu"), functional.gelu(x.float())),
        (rounded(x, "silu", "first"), functional.silu(a) * b),
        (rounded(x, "gelu_new", "second"), tanh * a),
    )
    apart = max(_difference(found, plainly(expected)) for found, expected in pairs)
    return max(apart, _norms_difference(x[:, :384].contiguous()))


def _norms_difference(x: torch.Tensor) -> float:
    """Return how far norms that are rounded at once are from rounding them."""
    added, (weight, bias) = x.flip(0), x[:2]
    total = x.float() + added.float()
    layer = functional.layer_norm(total, (384,), weight.float(), bias.float(), 1e-5)
    scaled = functional.rms_norm(x.float(), (384,), weight.float(), 1e-6)
    pairs = (
        (normed_and_rounded(x, added, Norm(weight, bias, 1e-5))[2], layer),
        (normed_and_rounded(x, None, Norm(weight, None, 1e-6, is_rms=True))[2], scaled),
    )
    # Sums of a row are taken in another order, so more numbers may go either way.
    return max(_difference(found, plainly(expected)) for found, expected in pairs)


def _difference(found: Rounded, expected: Rounded) -> float:
    ours, theirs = (one.values.float() * one.scales for one in (found, expected))
    # The least steps of the format are those of 2 ** -6.
    size = theirs.abs().clamp(min=expected.scales / 64)
    apart = float(((ours - theirs).abs() / size).max())
    moved = (found.values.float() != expected.values.float()).float().mean()
    is_off = float(moved > _SELDOM)
    return max(apart, is_off, float((found.scales / expected.scales - 1).abs().max()))
