"""Activation functions by the names that config files use."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from sie_mcp.errors import ModelLoadFailed

Activation = Callable[[torch.Tensor], torch.Tensor]


def _sigmoid_gelu(x: torch.Tensor) -> torch.Tensor:
    """OpenAI's approximation, which CLIP was trained with; up to 2e-2 off the exact form."""
    return x * torch.sigmoid(1.702 * x)


_tanh_gelu: Activation = partial(functional.gelu, approximate="tanh")
# "gelu" is the exact one (erf); the tanh form differs by up to 1e-3.
_BY_NAME: dict[str, Activation] = {
    "gelu": functional.gelu,
    "gelu_new": _tanh_gelu,
    "gelu_fast": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "quick_gelu": _sigmoid_gelu,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": torch.clone,
}
_BY_CLASS = {
    "gelu": "gelu",
    "identity": "identity",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "tanh": "tanh",
}


def activation(name: str) -> Activation:
    """Return the function of a config's name ("gelu") or torch class ("torch.nn...Tanh").

    Raises:
        ModelLoadFailed: a name we do not know, with those we do.
    """
    if name.startswith("torch."):
        name = _BY_CLASS.get(name.rsplit(".", 1)[-1].lower(), name)
    if name not in _BY_NAME:
        raise ModelLoadFailed(f"activation {name!r} is not supported; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
