"""Late interaction on packed data: the sum over a query's tokens of the best product with an item.

Knows vectors and which sequences are compared, no texts and no requests. Source: Khattab & Zaharia
2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.kernels.switch import usable


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One query and what is compared with it; itself says which belong together."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a sequence is in late interaction: the `extra` of it."""

    question: Question
    is_query: bool


# The places of an item and of its query in a batch.
Pair = tuple[int, int]


def pairs_of(extras: Sequence[object]) -> list[Pair]:
    """Return the items of a batch whose query is in it too, ascending."""
    asked = [one if isinstance(one, Compared) else None for one in extras]
    queries = {one.question: place for place, one in enumerate(asked) if one and one.is_query}
    return [
        (place, queries[one.question])
        for place, one in enumerate(asked)
        if one and not one.is_query and one.question in queries
    ]


def maxsim(
    vectors: torch.Tensor,
    batch: PackedBatch,
    pairs: Sequence[Pair],
    kept: torch.Tensor | None,
    like: torch.Tensor,
    *,
    skipped: int = 0,
) -> torch.Tensor:
    """Score items by their queries, float32 `(num_pairs,)`; no token that counts: 0.

    Args:
        vectors: float32 `(num_tokens, dims)`, of unit length.
        batch: Tells which token belongs where.
        pairs: At least one; items ascending.
        kept: bool `(num_tokens,)`: tokens of items that count; None: all.
        like: A tensor in the model's own dtype, by which kernels are chosen.
        skipped: Leading tokens of a query that do not count.
    """
    kernels = usable("maxsim", like, batch)
    if kernels is not None:
        places = torch.tensor(pairs, dtype=torch.int32).to(vectors.device, non_blocking=True)
        longest = max(batch.lengths[query] for _, query in pairs)
        found: torch.Tensor = kernels.maxsim(
            vectors.contiguous(), batch.cu_seqlens, places, longest, kept, skipped
        )
        return found
    scores = vectors.new_empty(len(pairs))
    numbered = sorted(enumerate(pairs), key=lambda one: one[1][1])
    for query, group in groupby(numbered, key=lambda one: one[1][1]):
        rows, items = zip(*((row, item) for row, (item, _) in group), strict=True)
        first, last = batch.offsets[query : query + 2]
        asked = vectors[first + skipped : last]
        own = _of_one_query(vectors, batch, asked, items, kept)
        scores[torch.tensor(rows).to(scores.device, non_blocking=True)] = own
    return scores


def _of_one_query(
    vectors: torch.Tensor,
    batch: PackedBatch,
    query: torch.Tensor,
    items: Sequence[int],
    kept: torch.Tensor | None,
) -> torch.Tensor:
    """Multiply once for all items, which mostly lie together; what lies between goes nowhere."""
    nowhere = len(items)
    place_of = torch.full((batch.num_seqs,), nowhere)
    place_of[list(items)] = torch.arange(nowhere)
    between = slice(batch.offsets[items[0]], batch.offsets[items[-1] + 1])
    places = place_of.to(vectors.device, non_blocking=True)[batch.segments[between]]
    if kept is not None:
        places = places.masked_fill(~kept[between], nowhere)
    products = vectors[between] @ query.T
    best = products.new_full((nowhere + 1, len(query)), float("-inf"))
    best.scatter_reduce_(0, places[:, None].expand_as(products), products, "amax")
    best = best[:-1]
    return best.masked_fill(best == float("-inf"), 0.0).sum(dim=1)
