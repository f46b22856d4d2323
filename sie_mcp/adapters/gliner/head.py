"""The module on the encoder: words and labels from hidden states, then a score for each pairing.

Packed like the batch: words of all texts end to end. Device thread only.
"""

from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from sie_mcp.adapters.gliner.layers import SpanVectors, WordScorer, two_layers, words_per_block
from sie_mcp.adapters.gliner.relations import RelationHead
from sie_mcp.adapters.gliner.rule import GlinerRule


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a batch: their states, and those of each text's labels.

    Attributes:
        states: `(num_words, hidden_size)`.
        counts: Words of each text.
        texts: int64 `(num_words,)`, the text of each.
        lasts: int64 `(num_words,)`, the last word of that text.
        labels: `(num_texts, num_labels, hidden_size)`, zero where a text has fewer.
    """

    states: torch.Tensor
    counts: tuple[int, ...]
    texts: torch.Tensor
    lasts: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, states: torch.Tensor, counts: tuple[int, ...], labels: torch.Tensor) -> "Words":
        """Join states and labels."""
        texts = np.repeat(np.arange(len(counts)), counts)
        lasts = np.cumsum(counts)[texts] - 1
        indices = torch.from_numpy(np.stack([texts, lasts])).to(states.device, non_blocking=True)
        return cls(states, counts, indices[0], indices[1], labels)


class GlinerHead(nn.Module):
    """Everything that is no encoder of texts.

    Args:
        rule: What is computed.
        encoder_size: Width of the encoder's hidden states.
        label_encoder: The second encoder and its width; None: there is none.
    """

    def __init__(
        self, rule: GlinerRule, encoder_size: int, label_encoder: tuple[nn.Module, int] | None
    ) -> None:
        super().__init__()
        size = rule.hidden_size
        self.projection = _projection(encoder_size, size)
        self.labels_encoder: nn.Module | None = None
        self.labels_projection: nn.Module | None = None
        if label_encoder is not None:
            self.labels_encoder, width = label_encoder
            self.labels_projection = _projection(width, size)
        self.rnn: nn.LSTM | None = None
        if rule.num_rnn_layers:
            self.rnn = nn.LSTM(size, size // 2, rule.num_rnn_layers, bidirectional=True)
        self.scorer = WordScorer(rule) if rule.is_token_level else None
        has_spans = not rule.is_token_level or rule.relations is not None
        self.spans = SpanVectors(rule) if has_spans else None
        self.labels = two_layers(size, size) if has_spans else None
        self.relations = None if rule.relations is None else RelationHead(rule.relations, size)

    def project(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return rows of the encoder's hidden states in the head's own width."""
        if self.projection is None:
            return hidden_states
        projected: torch.Tensor = self.projection(hidden_states)
        return projected

    def in_order(self, states: torch.Tensor, counts: Series[int]) -> torch.Tensor:
        """Let each text's words see one another in order, where the checkpoint does that."""
        if self.rnn is None or not len(states):
            return states
        return in_steps(self.rnn, states, *by_steps(counts))

    def forward(self, words: Words) -> torch.Tensor:
        """Return logits, float32.

        They are `(num_words, max_width, num_labels)` for the spans that start at each word, or for
        each word as start, end and inside of an entity `(num_words, num_labels, 3)`.
        """
        labels = words.labels if self.labels is None else self.labels(words.labels)
        if self.scorer is not None:
            return self._word_scores(self.scorer, labels, words)
        assert self.spans is not None
        return self._span_scores(self.spans, labels, words)

    def span_vectors(self, words: Words, firsts: list[int], lasts: list[int]) -> torch.Tensor:
        """Return the vectors of spans by their first and last words, `(num_spans, hidden_size)`."""
        assert self.spans is not None
        places = torch.tensor([firsts, lasts]).to(words.states.device, non_blocking=True)
        means = _means(words)[words.texts[places[0]]] if self.spans.reads_means else None
        return self.spans.of(words.states[places[0]], words.states[places[1]], means)

    def _word_scores(self, scorer: WordScorer, labels: torch.Tensor, words: Words) -> torch.Tensor:
        labels = scorer.proj_label(labels)
        num_labels, size = words.labels.shape[1:]
        scores = words.states.new_empty((len(words.states), num_labels, 3), dtype=torch.float32)
        step = words_per_block(num_labels * 13 * size * words.states.element_size())
        for first in range(0, len(scores), step):
            block = slice(first, first + step)
            scores[block] = scorer(words.states[block], labels[words.texts[block]])
        return scores

    def _span_scores(self, spans: SpanVectors, labels: torch.Tensor, words: Words) -> torch.Tensor:
        width, (num_labels, size) = spans.max_width, labels.shape[1:]
        scores = words.states.new_empty((len(words.states), width, num_labels), dtype=torch.float32)
        means = _means(words) if spans.reads_means else None
        places = torch.arange(len(scores), device=labels.device)
        reach = torch.arange(width, device=labels.device)
        row_bytes = (width * (8 * size + num_labels) + num_labels * size) * labels.element_size()
        step = words_per_block(row_bytes)
        for first in range(0, len(scores), step):
            block = slice(first, first + step)
            texts = words.texts[block]
            # A span past the end of its text is scored as a shorter one, and read by nobody.
            ends = torch.minimum(places[block, None] + reach, words.lasts[block, None]) - first
            vectors = spans(
                words.states[first : first + step + width - 1],
                ends,
                None if means is None else means[texts],
            )
            scores[block] = vectors @ labels[texts].transpose(1, 2)
        return scores


def by_steps(counts: Series[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of all first words, then of all second ones: the longest text's first.

    And how many texts have a first word, a second one, and so on. Both are int64.
    """
    lengths = np.asarray(counts, dtype=np.int64)
    texts = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.arange(len(texts)) - (np.cumsum(lengths) - lengths)[texts]
    rows = np.lexsort((texts, -lengths[texts], steps))
    return rows, np.bincount(steps)


def in_steps(
    rnn: nn.LSTM, states: torch.Tensor, rows: np.ndarray, batch_sizes: np.ndarray
) -> torch.Tensor:
    """Return what an LSTM makes of texts' words; the rest of the arguments is from `by_steps`.

    What `pack_sequence` does, and `unpack_sequence` after it, without a copy for each text.
    """
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    places = torch.from_numpy(np.stack([rows, back])).to(states.device, non_blocking=True)
    seen: PackedSequence = rnn(PackedSequence(states[places[0]], torch.from_numpy(batch_sizes)))[0]
    return seen.data[places[1]]


def _projection(size: int, out_size: int) -> nn.Linear | None:
    return None if size == out_size else nn.Linear(size, out_size)


def _means(words: Words) -> torch.Tensor:
    """Return the mean of each text's words, `(num_texts, hidden_size)`."""
    size = words.states.shape[1]
    sums = words.states.new_zeros((len(words.counts), size), dtype=torch.float32)
    sums.index_add_(0, words.texts, words.states.float())
    counts = torch.tensor(words.counts).clamp(min=1).to(sums.device, non_blocking=True)
    return (sums / counts[:, None]).to(words.states.dtype)
