"""A linear layer whose weights lie as oneDNN reads them: in blocks, put in order once.

The plain twin is `nn.Linear`, which reorders or strides through them at each call. The values are
the same; sums may be taken in another order. Knows torch alone, no model.
"""

import platform
from functools import cache

import torch
from torch import nn
from torch.nn import functional

PACKABLE = (torch.float32, torch.bfloat16)


@cache
def can_pack() -> bool:
    """Whether this machine and build of torch have packed products that are worth it."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    has_library = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(is_x86 and has_library and torch.cpu._is_avx512_supported())


@cache
def has_fast_bfloat16() -> bool:
    """Whether processors multiply bfloat16 numbers, and do not only carry them."""
    return bool(
        can_pack() and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    )


class PackedLinear(nn.Module):
    """W x + b, W in blocks. Its `weight` is a parameter without numbers while they are packed.

    Args:
        linear: What it replaces; its parameters become this layer's own.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._packed: torch.Tensor | None = None
        self._dtype = linear.weight.dtype

    @property
    def size_bytes(self) -> int:
        """What the packed form takes; 0 without one."""
        numbers = self.in_features * self.out_features
        return 0 if self._packed is None else numbers * self._dtype.itemsize

    def pack(self) -> None:
        """Put the weights in blocks; the parameter's own memory is the caller's to free."""
        self._dtype = self.weight.dtype
        # The number of rows is a hint alone.
        rows = 1024
        self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), rows)

    def unpacked(self) -> torch.Tensor:
        """Return the weights as they were, `(out_features, in_features)`."""
        assert self._packed is not None
        return self._packed.to_dense()

    def drop(self) -> None:
        """Free the packed form."""
        self._packed = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `(num_rows, out_features)`, in the dtype of x."""
        if self._packed is None:
            return functional.linear(x, self.weight, self.bias)
        if x.dtype != self._dtype or not x.numel():
            # Computed wider than it is stored, which is rare.
            with torch._C.DisableTorchFunction():
                weight = self.unpacked().to(x.dtype)
                bias = None if self.bias is None else self.bias.to(x.dtype)
            return functional.linear(x, weight, bias)
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self.bias, "none", [], ""
        )
        return y
