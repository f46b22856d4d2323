"""One forward pass: the encoder over packed tokens, then words against labels.

Device thread only.
"""

from collections import OrderedDict
from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np
import torch

from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows, Sequence
from sie_mcp.adapters.gliner.head import GlinerHead, Words
from sie_mcp.adapters.gliner.linking import LinkWish, link
from sie_mcp.adapters.gliner.rule import GlinerRule
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.packing import pack

# Labels whose vectors are kept, of a bi-encoder: 4,096 of 768 numbers are 13 MB.
MAX_KEPT_LABELS = 4096
# Tokens of labels that are read at once.
MAX_LABEL_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a sequence its words and labels are.

    Attributes:
        tokens: int64 `(num_pieces,)`, places of the tokens that represent words.
        words: int64 `(num_pieces,)`, the word that each is a piece of.
        num_words: All words of the sequence.
        markers: Places of the tokens that represent labels.
        labels: The labels' texts and tokens, for a second encoder.
        wish: What is to be linked; None: nothing.
    """

    tokens: np.ndarray
    words: np.ndarray
    num_words: int
    markers: tuple[int, ...] = ()
    labels: tuple[tuple[str, np.ndarray], ...] = ()
    wish: LinkWish | None = None


class GlinerForward:
    """Runs a loaded model; remembers labels' vectors where a second encoder makes them."""

    def __init__(self, model: Model, head: GlinerHead, rule: GlinerRule) -> None:
        self._model, self._head, self._rule = model, head, rule
        self._kept: OrderedDict[str, torch.Tensor] = OrderedDict()

    def __call__(self, batch: PackedBatch) -> Outputs:
        """Return "logits": for each sequence a row a word; see `GlinerHead`.

        Where something is to be linked, "pairs" and "links" too; see `link`.
        """
        hidden_states = self._model.states(batch)
        counts = tuple(layout.num_words for layout in batch.extras)
        states = self._head.in_order(self._words(hidden_states, batch, counts), counts)
        labels = self._labels(hidden_states, batch)
        words = Words.of(states, counts, labels)
        logits = self._head(words)
        outputs: Outputs = {"logits": Rows(logits, (0, *np.cumsum(counts).tolist()))}
        wishes = [one.wish for one in batch.extras]
        if any(wishes):
            markers = [() if one is None else one.markers for one in wishes]
            found = self._markers(hidden_states, batch, markers)
            relations = torch.split(found, [len(one) for one in markers])
            outputs |= link(self._head, words, logits, wishes, relations)
        return outputs

    def _words(
        self, hidden_states: torch.Tensor, batch: PackedBatch, counts: tuple[int, ...]
    ) -> torch.Tensor:
        """Return a state for each word, `(num_words, hidden_size)`."""
        layouts: tuple[Layout, ...] = batch.extras
        firsts, shifts = np.array(batch.offsets[: len(layouts)]), np.cumsum((0, *counts))[:-1]
        sizes = [len(one.tokens) for one in layouts]
        places = np.stack(
            [
                np.concatenate([one.tokens for one in layouts]) + np.repeat(firsts, sizes),
                np.concatenate([one.words for one in layouts]) + np.repeat(shifts, sizes),
            ]
        )
        tokens, words = torch.from_numpy(places).to(hidden_states.device, non_blocking=True)
        states = self._head.project(hidden_states[tokens])
        if self._rule.subtoken_pooling in ("first", "last"):
            return states  # One piece a word.
        reduce = "mean" if self._rule.subtoken_pooling == "mean" else "amax"
        empty = states.new_zeros((sum(counts), states.shape[1]))
        index = words[:, None].expand_as(states)
        return empty.scatter_reduce_(0, index, states, reduce=reduce, include_self=False)

    def _labels(self, hidden_states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return each sequence's labels, `(num_seqs, most_labels, hidden_size)`."""
        layouts: tuple[Layout, ...] = batch.extras
        sizes = [len(one.markers) or len(one.labels) for one in layouts]
        if self._rule.label_encoder is not None:
            states = self._label_vectors(layouts)
        else:
            states = self._markers(hidden_states, batch, [one.markers for one in layouts])
        return padded(states, sizes)

    def _markers(
        self, hidden_states: torch.Tensor, batch: PackedBatch, markers: Series[tuple[int, ...]]
    ) -> torch.Tensor:
        """Return what the markers of all sequences represent, `(num_markers, hidden_size)`."""
        rows = [
            first + marker
            for own, first in zip(markers, batch.offsets, strict=False)
            for marker in own
        ]
        on_device = torch.tensor(rows).to(hidden_states.device, non_blocking=True)
        return self._head.project(hidden_states[on_device])

    def _label_vectors(self, layouts: tuple[Layout, ...]) -> torch.Tensor:
        """Return vectors of all sequences' labels, those not kept from before encoded now."""
        wanted = {text: ids for layout in layouts for text, ids in layout.labels}
        found = {text: self._kept[text] for text in wanted if text in self._kept}
        found |= self._encode({text: ids for text, ids in wanted.items() if text not in found})
        self._kept.update(found)
        for text in found:
            self._kept.move_to_end(text)
        while len(self._kept) > MAX_KEPT_LABELS:
            self._kept.popitem(last=False)
        return torch.stack([found[text] for layout in layouts for text, _ in layout.labels])

    def _encode(self, labels: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """Read labels by the second encoder, the mean of each one's tokens being its vector."""
        found: dict[str, torch.Tensor] = {}
        waiting = list(labels)
        device = next(self._head.parameters()).device
        while waiting:
            texts: list[str] = []
            num_tokens = 0
            while waiting and (not texts or num_tokens < MAX_LABEL_TOKENS):
                texts.append(waiting.pop())
                num_tokens += len(labels[texts[-1]])
            batch = pack([Sequence(labels[text]) for text in texts], device)
            assert self._head.labels_encoder is not None
            states = self._head.labels_encoder(batch)
            if self._head.labels_projection is not None:
                states = self._head.labels_projection(states)
            parts = torch.split(states, list(batch.lengths))
            found |= {text: part.mean(0) for text, part in zip(texts, parts, strict=True)}
        return found


def padded(states: torch.Tensor, sizes: Series[int]) -> torch.Tensor:
    """Return each sequence's rows, zeros behind them: `(num_seqs, most_rows, hidden_size)`."""
    most, size = max(sizes), states.shape[1]
    if min(sizes) == most:
        return states.view(len(sizes), most, size)
    counts = np.asarray(sizes)
    # Where each sequence's rows go, less where they come from.
    shifts = most * np.arange(len(counts)) - (np.cumsum(counts) - counts)
    places = np.arange(len(states)) + np.repeat(shifts, counts)
    on_device = torch.from_numpy(places).to(states.device, non_blocking=True)
    empty = states.new_zeros((len(counts) * most, size))
    return empty.index_copy_(0, on_device, states).view(len(counts), most, size)
