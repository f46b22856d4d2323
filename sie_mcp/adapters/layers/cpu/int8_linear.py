"""A linear layer in integers of eight bits: weights scaled by row, inputs by token as they come.

Each token has a scale of its own, so that what it gives does not depend on its neighbours. The
plain twin is `nn.Linear` on the same weights, which this comes close to. Knows torch alone.
"""

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from sie_mcp.adapters.layers.cpu.packed_linear import can_pack, has_fast_bfloat16

# Inputs are scaled in bfloat16, which may round up by half a step: 127 would not be safe.
_REACH = 126.0
_WEIGHT_REACH = 127.0
# What stands for zero where inputs are unsigned, as the products take them.
_ZERO = 128
_TINY = 1e-8


@cache
def has_int8() -> bool:
    """Whether processors multiply such integers, and bfloat16 numbers for all the rest."""
    return bool(can_pack() and has_fast_bfloat16() and torch.cpu._is_vnni_supported())


def rounded_rows(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return integers of the shape of the weights, float32, and a scale for each row."""
    scales = weights.abs().amax(1).clamp_(min=_TINY) / _WEIGHT_REACH
    return (weights / scales[:, None]).round_().to(torch.int8), scales


class Int8Linear(nn.Module):
    """W x + b. Its `weight` is a parameter without numbers while they are held as integers.

    Args:
        linear: What it replaces, in bfloat16; its parameters become this layer's own.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._held: _Held | None = None

    @property
    def size_bytes(self) -> int:
        """What the integers take; 0 without them."""
        return 0 if self._held is None else self.in_features * self.out_features

    def pack(self) -> None:
        """Round the weights to integers; the parameter's own memory is the caller's to free."""
        self._held = _Held(self.weight.detach().float(), self.bias)

    def unpacked(self) -> torch.Tensor:
        """Return the weights as they count, rounded, `(out_features, in_features)`."""
        assert self._held is not None
        return self._held.weights().bfloat16()

    def drop(self) -> None:
        """Free the integers."""
        self._held = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `(num_rows, out_features)`, in the dtype of x."""
        if self._held is None:
            return functional.linear(x, self.weight, self.bias)
        if x.dtype != torch.bfloat16 or not x.numel():
            with torch._C.DisableTorchFunction():
                weight = self._held.weights().to(x.dtype)
                bias = None if self.bias is None else self.bias.to(x.dtype)
            return functional.linear(x, weight, bias)
        inverse = (_REACH / x.abs().amax(-1, keepdim=True).float().clamp_(min=_TINY)).bfloat16()
        rounded = (x * inverse).round_().to(torch.int8).view(torch.uint8).bitwise_xor_(_ZERO)
        y = self._held.product(rounded).mul_(inverse.float().reciprocal_())
        if self._held.bias is not None:
            y.add_(self._held.bias)
        return y.to(x.dtype)


class _Held:
    """Weights as integers, in the order that products read them in, and a scale a row."""

    def __init__(self, weights: torch.Tensor, bias: torch.Tensor | None) -> None:
        num_rows, num_columns = weights.shape
        whole, self._scales = rounded_rows(weights)
        # Added to sums that are not rounded yet: mixing dtypes there is many times slower.
        self.bias = None if bias is None else bias.detach().float()
        self._zeros = torch.zeros(num_rows, dtype=torch.int64)
        # The number of rows of the input is a hint alone.
        self._packed = torch.ops.onednn.qlinear_prepack(whole, [1024, num_columns])

    def weights(self) -> torch.Tensor:
        """Return what the integers stand for, float32."""
        whole: torch.Tensor = self._packed.to_dense().t()  # Held the other way round.
        return whole.float() * self._scales[:, None]

    def product(self, rounded: torch.Tensor) -> torch.Tensor:
        """Return W x, float32, of unsigned integers whose zero is 128."""
        y: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, _ZERO, self._packed, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return y
