"""From a batch's scored words to scored pairs of entities. Device thread only."""

from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np
import torch

from sie_mcp.adapters.adapter import Outputs, Rows
from sie_mcp.adapters.gliner.candidates import span_candidates, word_candidates
from sie_mcp.adapters.gliner.head import GlinerHead, Words
from sie_mcp.adapters.gliner.relations import RelationHead

# Of a window: 16,256 pairs. The surest where a threshold lets in more.
MAX_NODES = 128
# Head's first and last word, tail's first and last word.
_PLACES = 4


@dataclass(frozen=True, slots=True)
class LinkWish:
    """What a sequence wants linked.

    Attributes:
        markers: Places of the tokens that represent relations.
        thresholds: float64 `(num_labels,)`; what scores over one is an entity.
        link: What two entities' link must be over to be looked at.
    """

    markers: tuple[int, ...]
    thresholds: np.ndarray
    link: float


def link(
    head: GlinerHead,
    words: Words,
    logits: torch.Tensor,
    wishes: Series[LinkWish | None],
    relations: Series[torch.Tensor],
) -> Outputs:
    """Return "pairs", the words of heads and tails (ends inclusive), and "links", their logits.

    Args:
        head: What scores.
        words: Of all sequences.
        logits: Of `head`.
        wishes: One for each sequence.
        relations: `(num_relations, hidden_size)` of each sequence.
    """
    assert head.relations is not None
    places: list[torch.Tensor] = []
    scores: list[torch.Tensor] = []
    width = max(len(one) for one in relations)
    first = 0
    for wish, own, count in zip(wishes, relations, words.counts, strict=True):
        spans = [] if wish is None else _spans(logits[first : first + count], head, wish)
        pairs, found = logits.new_empty((0, _PLACES), dtype=torch.int64), logits.new_empty((0, 0))
        if wish is not None and len(spans) > 1:
            nodes = head.span_vectors(
                words, [first + one for one, _ in spans], [first + one for _, one in spans]
            )
            pairs, found = _pairs(head.relations, nodes, spans, own, wish.link)
        places.append(pairs)
        padding = (0, width - found.shape[1])
        scores.append(torch.nn.functional.pad(found.float(), padding))
        first += count
    offsets = (0, *np.cumsum([len(one) for one in places]).tolist())
    return {
        "pairs": Rows(torch.cat(places), offsets),
        "links": Rows(torch.cat(scores), offsets),
    }


def _spans(logits: torch.Tensor, head: GlinerHead, wish: LinkWish) -> list[tuple[int, int]]:
    """Return the entities' first and last words; waits for the device.

    Where words are judged, a span with two labels is there twice, as in the reference: each is
    something that others are linked to.
    """
    num_labels = len(wish.thresholds)
    host = logits.cpu().numpy()
    if head.scorer is not None:
        found = word_candidates(host[:, :num_labels], wish.thresholds)
        best = found.some(np.argsort(-found.scores, kind="stable")[:MAX_NODES])
        return list(zip(best.firsts.tolist(), (best.lasts - 1).tolist(), strict=True))
    found = span_candidates(host[..., :num_labels], wish.thresholds)
    scored: dict[tuple[int, int], float] = {}
    for first, end, score in zip(
        found.firsts.tolist(), found.lasts.tolist(), found.scores.tolist(), strict=True
    ):
        span = (first, end - 1)
        scored[span] = max(score, scored.get(span, 0.0))
    return sorted(scored, key=lambda span: -scored[span])[:MAX_NODES]


def _pairs(
    head: RelationHead,
    nodes: torch.Tensor,
    spans: list[tuple[int, int]],
    relations: torch.Tensor,
    threshold: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = head.pairs(nodes, threshold)
    logits = head(nodes, pairs, relations)
    words = torch.tensor(spans).to(nodes.device, non_blocking=True)
    return words[pairs].reshape(len(pairs), _PLACES), logits
