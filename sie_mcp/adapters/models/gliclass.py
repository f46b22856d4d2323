"""GLiClass on an encoder of ours: labels and text read together, a logit for each label.

Source: Knowledgator's gliclass (uni-encoder). A label's vector is the state of the marker before
it, or the mean of its tokens'; the text's is pooled over all tokens of the sequence, without
padding, as the library does for a text alone.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch, Rows
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.label_scorers import SCORERS
from sie_mcp.adapters.layers.pooling import pool
from sie_mcp.adapters.model import Config, Head
from sie_mcp.adapters.recipe import PoolingMode

# What an encoder's config keeps the checkpoint's own settings under.
SETTINGS = "gliclass"
# What the library adds to a length before it divides by it.
_TINY = 1e-8
_POOLED: dict[str, PoolingMode] = {
    "first": "cls",
    "last": "lasttoken",
    "avg": "mean",
    "max": "max",
    "sum": "mean",
    "rms": "mean",
    "abs_max": "max",
    "abs_avg": "mean",
}
POOLINGS = tuple(_POOLED)


@dataclass(frozen=True, slots=True)
class GliclassSettings:
    """What of the checkpoint's config.json changes its numbers.

    Attributes:
        class_id: The marker before each label.
        text_id: The marker between labels and text.
        prompt_first: Labels stand before the text.
        averages_labels: A label's vector is the mean over its tokens, not the marker's state.
        embeds_marker: The marker counts; otherwise what follows it.
        reads_from_text: Pooling begins at the marker before the text.
        multi_label: Labels are judged each alone where the caller does not say.
    """

    class_id: int
    text_id: int
    hidden_size: int
    act: str
    pooling: str
    scorer: str
    prompt_first: bool
    averages_labels: bool
    embeds_marker: bool
    reads_from_text: bool
    normalizes: bool
    multi_label: bool

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read an encoder's config that holds them."""
        own = config[SETTINGS]
        size = config["vocab_size"]
        return cls(
            class_id=_marker(own, "class_token_index", size),
            text_id=_marker(own, "text_token_index", size + 1),
            hidden_size=own.get("hidden_size") or config["hidden_size"],
            act=own.get("projector_hidden_act", "gelu"),
            pooling=own.get("pooling_strategy", "first"),
            scorer=own.get("scorer_type", "simple"),
            prompt_first=own.get("prompt_first", False),
            averages_labels=own.get("class_token_pooling", "first") == "average",
            embeds_marker=own.get("embed_class_token", True),
            reads_from_text=own.get("extract_text_features", False),
            normalizes=own.get("normalize_features", False),
            multi_label=own.get("problem_type") != "single_label_classification",
        )


def _marker(own: Config, key: str, default: int) -> int:
    index = int(own.get(key, -1))
    return default if index == -1 else index


class Projector(nn.Module):
    """Two layers from the encoder's width, through the head's own, and back."""

    def __init__(self, width: int, hidden_size: int, act: str) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(width, hidden_size)
        self.linear_2 = nn.Linear(hidden_size, width)
        self.activation = activation(act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project the last dimension."""
        projected: torch.Tensor = self.linear_2(self.activation(self.linear_1(x)))
        return projected


class GliclassHead(nn.Module):
    """From hidden states to a logit for each label of each sequence."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.settings = GliclassSettings.of(config)
        width, hidden_size = config["hidden_size"], self.settings.hidden_size
        self.text_projector = Projector(width, hidden_size, self.settings.act)
        self.classes_projector = Projector(width, hidden_size, self.settings.act)
        self.scorer = SCORERS[self.settings.scorer](hidden_size)
        self.logit_scale = nn.Parameter(torch.empty(()))

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Rows:
        """Return float32 logits: sequence i owns as many as it holds markers."""
        is_marker = batch.input_ids == self.settings.class_id
        rows = torch.nonzero(is_marker).flatten()
        owners = batch.segments[rows]
        counts = torch.bincount(owners, minlength=batch.num_seqs)
        ends = counts.cumsum(0)
        labels = self._normed(
            self.classes_projector(self._labels(hidden_states, batch, rows, owners, ends - counts))
        )
        texts = self._normed(self.text_projector(self._texts(hidden_states, batch)))
        logits = self.scorer(texts, labels, owners)
        if self.settings.normalizes:
            logits = logits * self.logit_scale
        return Rows(logits.float(), (0, *ends.tolist()))

    def _texts(self, hidden_states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return each sequence's pooled vector, `(num_seqs, width)`."""
        how = self.settings.pooling
        kept = None
        if self.settings.reads_from_text:
            kept = batch.input_ids == self.settings.text_id
        if how.startswith("abs_"):
            hidden_states = hidden_states.abs()
        elif how == "rms":
            hidden_states = hidden_states.float().square()
        pooled = pool(hidden_states, batch, (_POOLED[how],), kept)
        if how == "sum":
            lengths = torch.tensor(batch.lengths).to(pooled.device, non_blocking=True)
            pooled = pooled * lengths[:, None]
        return (pooled.sqrt() if how == "rms" else pooled).to(self.logit_scale.dtype)

    def _labels(
        self,
        hidden_states: torch.Tensor,
        batch: PackedBatch,
        rows: torch.Tensor,
        owners: torch.Tensor,
        before: torch.Tensor,
    ) -> torch.Tensor:
        """Return each label's vector, `(num_labels, width)`.

        Args:
            hidden_states: `(num_tokens, width)`.
            batch: Where they come from.
            rows: Where markers stand.
            owners: The sequence of each.
            before: How many labels the sequences before each one hold.
        """
        if not self.settings.averages_labels:
            return hidden_states[rows if self.settings.embeds_marker else rows + 1]
        is_marker = batch.input_ids == self.settings.class_id
        # The label that each token belongs to: the last marker before it, in its own sequence.
        label = is_marker.long().cumsum(0) - 1
        counted = label >= before[batch.segments]
        if not self.settings.embeds_marker:
            counted &= ~is_marker
        weights = counted.float()
        place = label.clamp(min=0)
        total = torch.zeros(len(rows), hidden_states.shape[-1], device=rows.device)
        total.index_add_(0, place, hidden_states.float() * weights[:, None])
        number = torch.zeros(len(rows), device=rows.device).index_add_(0, place, weights)
        mean = total / number.clamp(min=1)[:, None]
        return mean.to(hidden_states.dtype)

    def _normed(self, x: torch.Tensor) -> torch.Tensor:
        if not self.settings.normalizes:
            return x
        lengths: torch.Tensor = x.norm(p=2, dim=-1, keepdim=True)
        return x / (lengths + _TINY)


HEAD = Head(
    build=lambda config, _: GliclassHead(config),
    renames=(
        (r"(?:model\.)?((?:text|classes)_projector\..*)", r"\1"),
        (r"(?:model\.)?(scorer\..*)", r"\1"),
        (r"(?:model\.)?(logit_scale)", r"\1"),
    ),
)
