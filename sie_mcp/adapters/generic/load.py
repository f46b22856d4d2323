"""From the recipe of a model that looks at images to its adapter, checked."""

from collections.abc import Callable

import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.flat import flatten, weights_stream
from sie_mcp.adapters.generic.detector import DetectorAdapter
from sie_mcp.adapters.generic.families import FAMILIES
from sie_mcp.adapters.generic.inputs import Parts
from sie_mcp.adapters.generic.pages import PagesAdapter
from sie_mcp.adapters.generic.writer import WriterAdapter
from sie_mcp.adapters.models.transformers_generic import (
    load_processor,
    load_whole,
    weights_dtype,
    weights_in,
)
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.self_check import check

_KINDS: dict[str, Callable[[Parts], Adapter]] = {
    "detection": DetectorAdapter,
    "description": WriterAdapter,
    "pages": PagesAdapter,
}


def load_generic(
    recipe: Recipe, card: wire.ModelCard, *, device: torch.device, dtype: torch.dtype
) -> Adapter:
    """Load the weights and return an adapter that has passed its self-check.

    Raises:
        ModelLoadFailed: wrong files, or numbers that fail the check.
    """
    family = FAMILIES[str(recipe.config["model_type"])]
    processor = load_processor(recipe.name, recipe.folder)
    module = load_whole(recipe, family.class_name, attention=family.attention)
    with weights_stream(device):
        weights = flatten(module, device, weights_in(weights_dtype(recipe, dtype)))
    with weights.freed_on_error():
        adapter = _KINDS[family.task](Parts(card, weights, module, processor, family))
        check(adapter, device)
    return adapter
