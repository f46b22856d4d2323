"""Pairs of entities from all windows of a text, joined: each relation once, both ends found."""

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import SequenceOutput
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.span_decoding import Span
from sie_mcp.adapters.words import WordSpan

_Key = tuple[str, int, int, int, int]


class Pairs:
    """Collects windows; then says which relations hold."""

    def __init__(self, relations: list[str], threshold: float) -> None:
        self._relations, self._threshold = relations, threshold
        self._found: dict[_Key, float] = {}

    def add(self, output: SequenceOutput, words: list[WordSpan]) -> None:
        """Add what a window found; `words` are its own."""
        if not self._relations:
            return
        scores = activate(output["links"][:, : len(self._relations)], "sigmoid")
        for pair, relation in zip(*np.nonzero(scores > self._threshold), strict=True):
            head, head_last, tail, tail_last = output["pairs"][pair]
            place = (words[head][0], words[head_last][1], words[tail][0], words[tail_last][1])
            key = (self._relations[relation], *place)
            self._found[key] = max(float(scores[pair, relation]), self._found.get(key, 0.0))

    def relations(self, text: str, entities: list[Span]) -> list[wire.Relation]:
        """Return the relations between two of a text's entities, the surest of each first."""
        kept = {(one.start, one.end) for one in entities}
        found = []
        for (relation, *place), score in self._found.items():
            head, tail = (place[0], place[1]), (place[2], place[3])
            if head in kept and tail in kept and head != tail:
                found.append(relation_between(text, relation, head, tail, score))
        return sorted(found, key=lambda one: (one.head_start, one.tail_start, -one.score))


def relation_between(
    text: str, name: str, head: tuple[int, int], tail: tuple[int, int], score: float
) -> wire.Relation:
    """Return a relation of two places in the text."""
    return wire.Relation(
        head=text[slice(*head)],
        tail=text[slice(*tail)],
        relation=name,
        score=score,
        head_start=head[0],
        head_end=head[1],
        tail_start=tail[0],
        tail_end=tail[1],
    )
