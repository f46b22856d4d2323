"""Scored pairs from all windows of a text, joined: each relation of a pair once."""

from collections import defaultdict

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.gliner.pairs import relation_between
from sie_mcp.adapters.glirel.reading import Part, Place
from sie_mcp.adapters.probabilities import activate


class Found:
    """Collects windows; then says which relations hold.

    Args:
        relations: All that were asked about.
        threshold: What a probability must be over.
        top_k: Most relations of one head and tail; None: all.
    """

    def __init__(self, relations: list[str], threshold: float, top_k: int | None) -> None:
        self._relations, self._threshold, self._top_k = relations, threshold, top_k
        self._scores: dict[tuple[Place, Place], dict[int, float]] = defaultdict(dict)

    def add(self, part: Part, relations: range, logits: np.ndarray) -> None:
        """Add a window's logits `(num_pairs, at least num_relations)` for some of the relations."""
        scores = activate(logits[:, : len(relations)], "sigmoid")
        for pair, place in zip(*np.nonzero(scores > self._threshold), strict=True):
            head, tail = part.pairs[pair]
            own = self._scores[part.spans[head], part.spans[tail]]
            relation = relations[place]
            own[relation] = max(float(scores[pair, place]), own.get(relation, 0.0))

    def relations(self, text: str) -> list[wire.Relation]:
        """Return what holds in the order of heads and tails, the surest of each first."""
        found = []
        for (head, tail), scores in sorted(self._scores.items()):
            best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))[: self._top_k]
            for relation, score in best:
                name = self._relations[relation]
                found.append(relation_between(text, name, head, tail, score))
        return found
