"""A linear layer in floats of eight bits (e4m3): weights scaled by row, inputs by token.

Each token has a scale of its own, so that what it gives does not depend on its neighbours; nothing
is calibrated. On CUDA the product is the library's own, elsewhere it is computed from what the
bytes stand for: the plain twin. Source of the format: Micikevicius et al. 2022. Knows torch alone.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

FLOAT8 = torch.float8_e4m3fn
# The largest number of the format.
REACH = 448.0
# How many scales are tried for a row of weights.
SCALES = 8
# A row of zeros has a scale too.
TINY = 1e-12
# What the library's products ask of both sides of the weights.
STEP = 16


class Rounded(NamedTuple):
    """Rows in eight bits, `(num_rows, size)`, and what each is multiplied by, float32 `(…, 1)`."""

    values: torch.Tensor
    scales: torch.Tensor


def rounded(x: torch.Tensor) -> Rounded:
    """Round rows of any precision to eight bits; what is not finite stays so."""
    wide = x.float()
    scales = wide.abs().amax(-1, keepdim=True).clamp_(min=TINY) / REACH
    return Rounded((wide / scales).to(FLOAT8), scales)


def rounded_weights(weights: torch.Tensor) -> Rounded:
    """Round rows, each by that scale of several in an octave that loses least.

    Twice a scale gives the same digits, so no others need be tried. Slow, and once a load.
    """
    wide = weights.float()
    first = wide.abs().amax(-1, keepdim=True).clamp_(min=TINY) / REACH
    best, least = first, torch.full_like(first, torch.inf)
    for step in range(SCALES):
        scales = first * 2.0 ** (step / SCALES)
        lost = ((wide / scales).to(FLOAT8).float() * scales - wide).square().sum(-1, keepdim=True)
        best, least = torch.where(lost < least, scales, best), torch.minimum(lost, least)
    return Rounded((wide / best).to(FLOAT8), best)


def has_eights(module: nn.Module) -> bool:
    """Whether some layer of a module is in eight bits."""
    return any(isinstance(one, Float8Linear) for one in module.modules())


class Float8Linear(nn.Linear):
    """W x + b. Made without numbers; `put` rounds a checkpoint's weights.

    Args:
        linear: What it replaces, both sides multiples of STEP; its bias becomes this layer's own.
    """

    scales: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        shape = (linear.in_features, linear.out_features)
        super().__init__(*shape, bias=False, device="meta")
        self.bias = linear.bias
        eight = torch.empty(shape[::-1], dtype=FLOAT8, device="meta")
        self.weight = nn.Parameter(eight, requires_grad=False)
        self.register_buffer("scales", torch.ones(linear.out_features, device="cpu"))

    def put(self, weights: torch.Tensor) -> None:
        """Round weights, `(out_features, in_features)`, into the parameter's own memory."""
        found = rounded_weights(weights.to(self.weight.device))
        self.weight.data.copy_(found.values)
        self.scales.copy_(found.scales.flatten())

    def plain(self) -> torch.Tensor:
        """Return the weights as they count, float32."""
        return self.weight.float() * self.scales[:, None]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return `(num_rows, out_features)`, in the dtype of the input.

        What is computed wider than bfloat16 has its inputs as they are.
        """
        if input.dtype != torch.bfloat16 or not input.numel():
            bias = None if self.bias is None else self.bias.to(input.dtype)
            return functional.linear(input, self.plain().to(input.dtype), bias)
        return self.product(rounded(input))

    def product(self, x: Rounded) -> torch.Tensor:
        """Return W x + b of rounded rows, bfloat16 `(num_rows, out_features)`."""
        if not x.values.is_cuda:
            y = functional.linear(x.values.float(), self.weight.float())
            y *= x.scales * self.scales
            return (y if self.bias is None else y + self.bias.float()).bfloat16()
        return torch._scaled_mm(
            x.values, self.weight.t(),
            scale_a=x.scales, scale_b=self.scales[None], bias=self.bias,
            # Sums are kept to fewer digits than float32 has, and to many more than inputs have.
            out_dtype=torch.bfloat16, use_fast_accum=True,
        )  # fmt: skip
