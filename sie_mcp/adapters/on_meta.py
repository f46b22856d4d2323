"""Modules without memory for their weights, which a checkpoint's tensors come to lie in.

Knows torch alone, no model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def on_meta() -> Iterator[None]:
    """Have modules that are made in this context be on the meta device, their weights not filled.

    Drawing weights at random, where nothing holds them, is not free: an embedding's would import
    the compiler, which takes longer than torch itself and a hundred megabytes.
    """
    with torch.device("meta"), _Unfilled():
        yield


def closed_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the tensor's strides without gaps: its dimensions lie in the order they have now.

    Asking torch for a like tensor on the meta device would import sympy, for half a second.
    """
    strides, step = [0] * tensor.dim(), 1
    for dim in sorted(range(tensor.dim()), key=lambda one: (tensor.stride(one), -one)):
        strides[dim] = step
        step *= max(tensor.shape[dim], 1)
    return tuple(strides)


class _Unfilled(TorchFunctionMode):
    """Initialisers do nothing to what is on the meta device."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        # What torch has in C belongs to no module.
        is_initialiser = getattr(func, "__module__", None) == torch.nn.init.__name__
        if is_initialiser and given["tensor"].is_meta:
            return given["tensor"]
        return func(*args, **given)
