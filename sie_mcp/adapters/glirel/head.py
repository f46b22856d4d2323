"""The module on the encoder: from hidden states to a logit for each pair and relation.

One text at a time, so that no padding takes part. Device thread only.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from sie_mcp.adapters.gliner.layers import two_layers, words_per_block
from sie_mcp.adapters.glirel.layers import Entities, PairScorer, Refine
from sie_mcp.adapters.glirel.rule import GlirelRule


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a sequence its relations and words are.

    Attributes:
        tokens: int64 `(num_all_words,)`, the token that represents each word, the prompt's first.
        num_labels: Relations of the prompt: mark and name of each, then one word that ends it.
        spans: int64 `(num_entities, 2)`, first and last word of each, counted in the text.
        pairs: int64 `(num_pairs, 2)`, places of head and tail in `spans`.
    """

    tokens: np.ndarray
    num_labels: int
    spans: np.ndarray
    pairs: np.ndarray


class GlirelHead(nn.Module):
    """Everything that is no encoder."""

    def __init__(self, rule: GlirelRule, encoder_size: int) -> None:
        super().__init__()
        size = rule.hidden_size
        self.rule = rule
        self.projection = None if encoder_size == size else nn.Linear(encoder_size, size)
        self.rnn = nn.LSTM(size, size // 2, bidirectional=True)
        self.entities = Entities(rule)
        self.pairs = two_layers(2 * size, size)
        self.labels = two_layers(size, size)
        self.refine_relation = Refine(size, 1, rule.ffn_mul) if rule.refines_pairs else None
        self.refine_prompt = Refine(size, 2, rule.ffn_mul) if rule.refines_labels else None
        self.scorer = PairScorer(rule.scorer, size)

    def forward(self, hidden_states: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Return logits, float32 `(num_pairs, num_labels)`.

        Args:
            hidden_states: `(num_tokens, encoder_size)` of one sequence.
            layout: Of the sequence.
        """
        states = self._words(hidden_states, layout)
        num_prompt = 2 * layout.num_labels + 1
        labels = self.labels(self._label_states(states[: num_prompt - 1]))
        if self.refine_prompt is not None:
            # The reference hides every pair from the relations when it predicts.
            labels = self.refine_prompt(labels, None)
        words = self.rnn(states[num_prompt:])[0]
        spans, pairs = (
            torch.from_numpy(one).to(states.device, non_blocking=True)
            for one in (layout.spans, layout.pairs)
        )
        entities = self.entities(words, spans[:, 0], spans[:, 1])
        return self._scores(entities, pairs, words, labels)

    def _words(self, hidden_states: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Return a state for each word, those of the prompt first."""
        tokens = torch.from_numpy(layout.tokens).to(hidden_states.device, non_blocking=True)
        states = hidden_states[tokens]
        return states if self.projection is None else self.projection(states)

    def _label_states(self, prompt: torch.Tensor) -> torch.Tensor:
        if self.rule.label_read == "ent_token":
            return prompt[0::2]
        if self.rule.label_read == "label":
            return prompt[1::2]
        return (prompt[0::2] + prompt[1::2]) / 2

    def _scores(
        self,
        entities: torch.Tensor,
        pairs: torch.Tensor,
        words: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        scores = entities.new_empty((len(pairs), len(labels)), dtype=torch.float32)
        size = entities.shape[1] * entities.element_size()
        step = words_per_block(size * (10 + self.rule.ffn_mul) + 8 * len(words))
        for first in range(0, len(pairs), step):
            heads, tails = (entities[one] for one in pairs[first : first + step].T)
            both = self.pairs(torch.cat([heads, tails], dim=-1))
            if self.refine_relation is not None:
                both = self.refine_relation(both, words)
            scores[first : first + step] = self.scorer(both, labels)
        return scores
