"""Activations, plain or as one half's weight on the other, in one pass. Twin: torch's own."""

import torch
import triton
import triton.language as tl
from torch.nn import functional

TOLERANCE = 3e-2
# By the names of config files: how the kernel computes it.
KINDS = {
    "gelu": "erf",
    "gelu_new": "tanh",
    "gelu_fast": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "sigmoid",
}
_COLUMNS = 1024


@triton.jit
def activated(x, KIND: tl.constexpr):
    """Return the activation of float32 numbers, for kernels."""
    if KIND == "erf":
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if KIND == "tanh":
        # x times the sigmoid of twice what the tanh is of.
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    if KIND == "sigmoid":
        return x * tl.sigmoid(1.702 * x)
    return x * tl.sigmoid(x)


@triton.jit(do_not_specialize=["count"])
def _apply(x, out, count, KIND: tl.constexpr, COLUMNS: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = places < count
    y = activated(tl.load(x + places, inside, 0.0).to(tl.float32), KIND)
    tl.store(out + places, y, inside)


def applied(x: torch.Tensor, act: str) -> torch.Tensor:
    """Return act(x) of a contiguous x; `act` is a key of KINDS."""
    out = torch.empty_like(x)
    _apply[(triton.cdiv(x.numel(), _COLUMNS),)](
        x, out, x.numel(), KIND=KINDS[act], COLUMNS=_COLUMNS, num_warps=4
    )
    return out


@triton.jit
def _gate(
    x, out, SIZE: tl.constexpr, KIND: tl.constexpr, SECOND: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < SIZE
    first = tl.load(x + row * 2 * SIZE + columns, inside, 0.0).to(tl.float32)
    second = tl.load(x + row * 2 * SIZE + SIZE + columns, inside, 0.0).to(tl.float32)
    y = first * activated(second, KIND) if SECOND else activated(first, KIND) * second
    tl.store(out + row * SIZE + columns, y, inside)


def gated(x: torch.Tensor, act: str, *, is_gate_first: bool) -> torch.Tensor:
    """Return act(a) * b, `(num_tokens, size)`, of halves a and b of x, `(num_tokens, 2 * size)`.

    Args:
        x: Contiguous.
        act: A key of KINDS.
        is_gate_first: a is the first half.
    """
    num_rows, size = x.shape[0], x.shape[1] // 2
    out = torch.empty((num_rows, size), dtype=x.dtype, device=x.device)
    _gate[(num_rows, triton.cdiv(size, _COLUMNS))](
        x, out, SIZE=size, KIND=KINDS[act], SECOND=not is_gate_first, COLUMNS=_COLUMNS, num_warps=4
    )
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(37, 2 * 1100, generator=generator, device=device).to(dtype)
    a, b = x.float().chunk(2, dim=-1)
    pairs = (
        (gated(x, "gelu", is_gate_first=True), functional.gelu(a) * b),
        (gated(x, "gelu_new", is_gate_first=False), functional.gelu(b, approximate="tanh") * a),
        (gated(x, "silu", is_gate_first=True), functional.silu(a) * b),
        (applied(x, "quick_gelu"), x.float() * torch.sigmoid(1.702 * x.float())),
        (applied(x, "gelu"), functional.gelu(x.float())),
    )
    return max(float(((one - two).abs() / two.abs().clamp(min=1.0)).max()) for one, two in pairs)
