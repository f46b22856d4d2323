"""Weights of half precision computed with in float32: each is copied while an operation reads it.

The weights themselves stay as they are, so it does not matter which module reads them, or how many
share one. Knows torch alone, no model.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_HALF = (torch.float16, torch.bfloat16)
# These pick numbers out: widening what they return spares a copy of the whole word table.
_PICKS = (functional.embedding, torch.embedding, torch.Tensor.__getitem__)
_CASTS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.half: torch.Tensor.float,
    torch.Tensor.bfloat16: torch.Tensor.float,
}


@contextmanager
def widened() -> Iterator[None]:
    """Compute in float32 on this thread, whatever the weights' precision; inputs count as such.

    Inside, tensors of half precision claim to be float32, are copied to it where they are read, and
    no new ones come into being.

    Raises:
        RuntimeError: something would be written into a tensor of half precision.
    """
    with _InFloat32():
        yield


class _InFloat32(TorchFunctionMode):
    """Stands between a model and torch: torch has no other way to see each operation."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operation of torch in float32."""
        named = kwargs or {}
        name = func.__name__
        if name == "__get__" or func in _PICKS:
            return _wide(func(*args, **named))
        target = named.get("out", args[0] if args and _writes(name) else None)
        if isinstance(target, torch.Tensor) and target.dtype in _HALF:
            raise RuntimeError(f"{name} writes into {target.dtype}: this model has no wider form")
        return _CASTS.get(func, func)(*_wide(args), **_wide(named))


def _writes(name: str) -> bool:
    """Whether an operation of this name changes its first argument: "add_", "__setitem__"."""
    is_special = name.endswith("__")
    return name in ("__setitem__", "__set__") if is_special else name.endswith("_")


def _wide(value: Any) -> Any:
    """Return arguments or results with float32 in place of half precision."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in _HALF else value
    if isinstance(value, torch.dtype):
        return torch.float32 if value in _HALF else value
    if type(value) in (tuple, list):
        return type(value)(_wide(one) for one in value)
    if type(value) is dict:
        return {name: _wide(one) for name, one in value.items()}
    return value
