"""Low-rank adapters in a checkpoint's own tensors: several stacked in one, beside what they change.

Source: Jina's embeddings v3, after the authors' modeling_lora.py. A layer's weight W `(out, in)`
becomes W + B A x alpha / rank with A `(rank, in)` and B `(out, rank)`; a table's `(rows, width)`
becomes W + A B x alpha / rank with A `(rows, rank)` and B `(rank, width)`.
"""

import math
import re
from collections.abc import Mapping

import torch
from torch import nn

from sie_mcp.adapters.flat import aligned
from sie_mcp.adapters.lora import Change, Lora, LowRank, LowRankTable
from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensor_names import target_of
from sie_mcp.adapters.tensors import TensorSource
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.wire import ModelCard

_STACKED = re.compile(r"(.+)\.parametrizations\.weight\.0\.lora_([AB])")
# The authors', where config.json is silent.
_RANK, _ALPHA = 4, 1


def stacked_bytes(
    source: TensorSource, recipe: Recipe, architecture: Architecture, dtype: torch.dtype
) -> int:
    """Return what the checkpoint's own adapters will take on the device.

    Raises:
        ModelLoadFailed: config.json and the tensors do not agree on whether there are any.
    """
    layers = _stacked_layers(source, recipe, architecture)
    shapes = [source.shape(name) for parts in layers.values() for name in parts.values()]
    return sum(shape[0] * aligned(math.prod(shape[1:]) * dtype.itemsize) for shape in shapes)


def load_stacked(
    source: TensorSource,
    recipe: Recipe,
    architecture: Architecture,
    model: nn.Module,
    *,
    dtype: torch.dtype,
) -> dict[str, Lora]:
    """Read the checkpoint's own adapters to the host, by name, and make them tensors of the model.

    They are where the model is from then on.

    Raises:
        ModelLoadFailed: there are others than config.json says, or they do not fit the model.
    """
    modules, held = dict(model.named_modules()), nn.Module()
    changes: dict[str, dict[str, tuple[Change, ...]]] = {name: {} for name in recipe.loras}
    for path, parts in _stacked_layers(source, recipe, architecture).items():
        layer = modules.get(path)
        _check(source, recipe, layer, parts)
        a, b = source.get(parts["A"]), source.get(parts["B"]).float() * _scale(recipe)
        for place, own in enumerate(changes.values()):
            # Copies: a view would keep all of them, and the mapped file, alive.
            own[path] = (
                _change(held, layer, *(one[place].to(dtype, copy=True) for one in (a, b))),
            )
    cards = {name: ModelCard(name=f"{recipe.name} + {name}", outputs=["lora"]) for name in changes}
    model.add_module("loras_of_tasks", held)
    return {name: Lora(cards[name], own) for name, own in changes.items()}


def _stacked_layers(
    source: TensorSource, recipe: Recipe, architecture: Architecture
) -> dict[str, dict[str, str]]:
    """Return the tensors "A" and "B" of each layer that we compute, by its path in our model."""
    matches = {name: match for name in source.names() if (match := _STACKED.fullmatch(name))}
    if matches and not recipe.config.get("lora_adaptations"):
        raise ModelLoadFailed(
            f"{source.label} holds {next(iter(matches))}, but config.json names no lora_adaptations"
        )
    if recipe.loras and not matches:
        raise ModelLoadFailed(
            f"{source.label} holds none of config.json's lora_adaptations; without that key, "
            "the model is served without them"
        )
    layers: dict[str, dict[str, str]] = {}
    # Where there is none to choose, they stay unread.
    for name, match in matches.items() if recipe.loras else ():
        target = target_of(f"{match[1]}.weight", architecture, recipe)
        if target is not None:
            layers.setdefault(target.removesuffix(".weight"), {})[match[2]] = name
    return layers


def _scale(recipe: Recipe) -> float:
    return float(recipe.config.get("lora_alpha", _ALPHA) / recipe.config.get("lora_rank", _RANK))


def _check(
    source: TensorSource, recipe: Recipe, layer: nn.Module | None, parts: Mapping[str, str]
) -> None:
    """Refuse tensors that are not as many, as deep or as wide as the model says."""
    count, rank = len(recipe.loras), recipe.config.get("lora_rank", _RANK)
    shapes = {part: source.shape(name) for part, name in sorted(parts.items())}
    wanted: dict[str, list[int]] = {}
    if isinstance(layer, nn.Linear):
        wanted = {"A": [count, rank, layer.in_features], "B": [count, layer.out_features, rank]}
    elif isinstance(layer, nn.Embedding):
        rows, width = layer.num_embeddings, layer.embedding_dim
        wanted = {"A": [count, rows, rank], "B": [count, rank, width]}
    if shapes != wanted:
        raise ModelLoadFailed(
            f"{source.label}: {next(iter(parts.values()))}: shapes {shapes}, but config.json and "
            f"the layer ask for {wanted or 'none'}"
        )


def _change(
    held: nn.Module, layer: nn.Module | None, a: torch.Tensor, b: torch.Tensor
) -> LowRank | LowRankTable:
    """Return what a pair of tensors changes; `held` has them among its own from now on."""
    up = b.T.contiguous() if isinstance(layer, nn.Embedding) else b
    for tensor in (a, up):
        held.register_buffer(str(len(list(held.buffers()))), tensor, persistent=False)
    return LowRankTable(a, up) if isinstance(layer, nn.Embedding) else LowRank(a, up, first=0)
