"""The module that is loaded: an architecture, the heads a recipe asks for, and its projections.

Knows how tensors of a checkpoint are named for each architecture; knows no files and no tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.graphs import ForwardGraphs
from sie_mcp.adapters.image_rule import ImageRule
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.lora_hooks import LoraHooks
from sie_mcp.adapters.recipe import LogitScore, PoolingMode, Projection, Recipe

# A checkpoint's tensor name (regex) -> ours. "#1" marks part 1 of a tensor that we keep fused.
Renames = tuple[tuple[str, str], ...]
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """A part on top of the encoder: how it is built, and its tensors in a checkpoint.

    `tied` maps a parameter of ours that a checkpoint may leave out to the one it equals. `pooling`
    says what a head that reads one vector a sequence is given; None: the first token's. Where
    `reads_tokens` says so, it reads every token and the mean is that of its logits.
    """

    build: Callable[[Config, int], nn.Module]
    renames: Renames
    tied: Mapping[str, str] = field(default_factory=dict)
    pooling: Callable[[Config], PoolingMode] | None = None
    reads_tokens: Callable[[Config], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """How a model of two towers, for texts and for images, makes a text's one vector.

    The state of the last token goes through the head for "dense", which is `size` wide. A text ends
    at its first end-of-text token; `is_padded`: instead it is filled up to all positions, and the
    padding is read like any other token.
    """

    size: Callable[[Config], int]
    is_padded: bool = False


@dataclass(frozen=True, slots=True)
class Vision:
    """The tower for images of a model of two towers.

    Attributes:
        build: Makes it of the settings of images in config.json.
        renames: For its tensors, and what projects its vectors.
        defaults: What the reference assumes where those settings are silent.
        num_extra: Tokens that it puts before the patches.
        has_shapes: Images keep their shape; otherwise all have one.
        is_each_alone: A text and an image match or do not, by a probability of their own;
            otherwise texts compete for an image.
    """

    build: Callable[[Config, ImageRule], nn.Module]
    renames: Renames
    defaults: Config
    num_extra: int = 0
    has_shapes: bool = False
    is_each_alone: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """A row of the table of architectures.

    Attributes:
        prefixes: Leading parts of tensor names that carry no meaning.
        renames: For the encoder's own tensors, after the prefix is gone.
        ignored: Tensors that may stay unused, as regexes.
        heads: By task; a classifier of one label or several is the "cross_encoder" one.
        text_features: How it makes a text's vector, where it does so by itself; None: a pipeline
            pools its hidden states.
        vision: The tower for images beside it.
        config_defaults: What the reference assumes where config.json is silent.
        config_names: The family's own names of what BERT's config calls otherwise, e.g.
            {"dim": "hidden_size"}; ours are added when config.json is read.
        padding_id: Positions start past this token id, so the table holds fewer tokens than rows;
            None: they start at 0.
        is_causal: Whether a token sees only what is before it where config.json is silent; None:
            the family leaves no choice.
        serves_lora: Every linear layer reads rows of texts alone, so that each text's own low-rank
            adapter can be added to them.
        records: Its encoder reads nothing of a batch on the host, so that a pass can be recorded.
        overflows_float16: Its hidden states outgrow float16; bfloat16 and float32 hold them.
        position_embedding_types: Values of that key in config.json that mean what we compute; so
            does its absence.
    """

    build: Callable[[Config], nn.Module]
    renames: Renames
    prefixes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    heads: Mapping[str, Head] = field(default_factory=dict)
    text_features: TextFeatures | None = None
    vision: Vision | None = None
    config_defaults: Config = field(default_factory=dict)
    config_names: Mapping[str, str] = field(default_factory=dict)
    padding_id: Callable[[Config], int] | None = None
    is_causal: bool | None = None
    records: bool = False
    overflows_float16: bool = False
    serves_lora: bool = True
    position_embedding_types: tuple[str, ...] = ("absolute",)

    def head(self, task: str) -> Head | None:
        """Return the head that a task needs; None where it needs none, or we have none."""
        return self.heads.get("cross_encoder" if task == "classification" else task)


class Dense(nn.Module):
    """A projection: y = activation(W x + b) [+ x or residual(x)]."""

    def __init__(self, projection: Projection) -> None:
        super().__init__()
        self.linear = nn.Linear(
            projection.in_features, projection.out_features, bias=projection.has_bias
        )
        self.residual: nn.Module | None = None
        if projection.has_residual and projection.in_features == projection.out_features:
            self.residual = nn.Identity()
        elif projection.has_residual:
            self.residual = nn.Linear(projection.in_features, projection.out_features, bias=False)
        self.activation = activation(projection.activation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project the last dimension."""
        y = self.activation(self.linear(x))
        return y if self.residual is None else y + self.residual(x)


class LayerNorm(nn.Module):
    """A LayerNorm module of its own, with torch's default epsilon."""

    def __init__(self, projection: Projection) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(projection.in_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension."""
        normed: torch.Tensor = self.norm(x)
        return normed


class LogitRows(nn.Linear):
    """The rows of a language model's last layer that belong to the words a score is read from."""

    def __init__(self, recipe: Recipe, score: LogitScore) -> None:
        super().__init__(recipe.config["hidden_size"], len(row_ids(score)), bias=False)


def row_ids(score: LogitScore) -> list[int]:
    """Return the words' ids, the true one first."""
    return [score.true_id, *([] if score.false_id is None else [score.false_id])]


def _vision(recipe: Recipe, architecture: Architecture) -> nn.Module | None:
    if recipe.images is None or architecture.vision is None:
        return None
    return architecture.vision.build(recipe.vision_config, recipe.images)


class Model(nn.Module):
    """An encoder with the heads and projections of one recipe."""

    def __init__(self, recipe: Recipe, architecture: Architecture) -> None:
        super().__init__()
        self.encoder = architecture.build(recipe.config)
        # Made once all weights have their places.
        self.graphs: ForwardGraphs | None = None
        self.image_graphs: ForwardGraphs | None = None
        self.vision = _vision(recipe, architecture)
        self.heads = nn.ModuleDict(
            {
                task: head.build(recipe.config, len(recipe.labels))
                for task in recipe.head_tasks
                if (head := architecture.head(task)) is not None
            }
        )
        # Not a module: it only looks after the others.
        self.loras = LoraHooks(self)
        score = recipe.logit_score
        self.rows = None if score is None else LogitRows(recipe, score)
        self.projections = nn.ModuleList(
            LayerNorm(one) if one.is_norm else Dense(one) for one in recipe.projections
        )

    def states(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`; of images vectors, one each."""
        if batch.images is None:
            return _run(self.encoder, self.graphs, batch)
        tower: Any = self.vision
        inner = replace(batch, images=None, embedded=tower.embed(batch))
        vectors: torch.Tensor = tower.finish(_run(tower, self.image_graphs, inner), batch)
        return vectors


def _run(encoder: nn.Module, graphs: ForwardGraphs | None, batch: PackedBatch) -> torch.Tensor:
    """Return what an encoder makes of a batch, by a recorded pass where there is one."""
    replayed = None
    if graphs is not None and "graphs" in batch.paths:
        replayed = graphs.states(batch)
    states: torch.Tensor = encoder(batch) if replayed is None else replayed
    return states
