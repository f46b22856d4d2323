"""What an adapter is made of: a checkpoint's recipe, its module, tokenizer, card and loras."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.wire import ModelCard


@dataclass(frozen=True, slots=True)
class Loaded:
    """One model, its weights on the device."""

    recipe: Recipe
    model: Model
    tokenizer: TextTokenizer
    card: ModelCard
    weights: FlatWeights
    loras: Mapping[str, Lora] = field(default_factory=dict)
