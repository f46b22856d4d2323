"""Whose kernels compute a model's encoder on a CPU: torch's, or OpenVINO's where it has the layers.

Says which models OpenVINO gets and what that takes; imports nothing of it.
"""

import importlib.util
from typing import Literal

import torch

from sie_mcp.adapters.model import Model
from sie_mcp.adapters.recipe import Recipe

CpuBackend = Literal["torch", "openvino"]

# Architectures whose layers are those of BERT, and nothing is added to their scores.
FAMILIES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
DTYPES = (torch.float32, torch.bfloat16, torch.int8)
# Activations by the names of config.json, and what a graph calls them.
ACTIVATIONS = {
    "gelu": "erf",
    "gelu_new": "tanh",
    "gelu_fast": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "relu": "relu",
}
# The linear layers of one of BERT's layers.
LINEARS = ("qkv", "out", "up", "down")
# What a compiled model keeps beside numbers, kernels above all. Measured: 29 to 33 MiB for six
# layers of width 384, 36 to 41 for twelve of 768.
_KERNEL_BYTES, _KERNEL_BYTES_PER_LAYER = 24 * 2**20, 3 * 2**19


def has_openvino() -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec("openvino") is not None


def refusal(recipe: Recipe, device: torch.device, dtype: torch.dtype) -> str | None:
    """Say why a model's encoder is not OpenVINO's to compute; None: it is."""
    if device.type != "cpu":
        return f"it is on {device}"
    if dtype not in DTYPES:
        return f"it has no {dtype}"
    if recipe.architecture not in FAMILIES:
        return f"it has no {recipe.architecture}, only {', '.join(FAMILIES)}"
    if recipe.gliner is not None or recipe.glirel is not None:
        return "its encoder is part of a larger one"
    if recipe.loras:
        return "it adds no low-rank adapters"
    act = recipe.config.get("hidden_act", "gelu")
    return None if act in ACTIVATIONS else f"it has no activation {act!r}"


def added_bytes(model: Model, dtype: torch.dtype) -> int:
    """Return what OpenVINO takes beside the weights as torch would have them.

    It keeps what a graph was made of beside the order that its products read. Integers of both
    are as large as the bfloat16 numbers that they stand for, but for their scales.
    """
    layers = list(model.get_submodule("encoder.layers").children())
    linears = [one.get_submodule(name) for one in layers for name in LINEARS]
    weights = [one.get_parameter("weight") for one in linears]
    kernels = _KERNEL_BYTES + _KERNEL_BYTES_PER_LAYER * len(layers)
    if dtype == torch.int8:
        return kernels + sum(one.shape[0] * torch.float32.itemsize for one in weights)
    return kernels + sum(one.numel() * dtype.itemsize for one in weights)
