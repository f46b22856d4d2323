"""Late interaction on packed data: the sum over a query's tokens of the best product with an item.

Knows vectors and which sequences are compared, no texts and no requests. Source: Khattab & Zaharia
2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import torch

from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows
from sie_mcp.adapters.layers.kernels.switch import usable

# Tokens of a query that is kept for its items of later batches: a megabyte at most.
MAX_KEPT_TOKENS = 256


@dataclass(slots=True, eq=False)
class Question:
    """One query and what is compared with it; itself says which belong together.

    Attributes:
        vectors: The query's, float32 `(num_tokens, dims)`, once its batch ran; for the device
            thread alone.
    """

    vectors: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What a sequence is in late interaction: the `extra` of it."""

    question: Question
    is_query: bool


def compared(
    vectors: torch.Tensor,
    batch: PackedBatch,
    roles: Sequence[object],
    like: torch.Tensor,
    *,
    kept: torch.Tensor | None = None,
    skipped: int = 0,
) -> Outputs:
    """Return "multivector", every token's, and of items whose query is known "maxsim" instead.

    Args:
        vectors: float32 `(num_tokens, dims)`, of unit length.
        batch: Tells which token belongs where.
        roles: What each sequence is: `Compared`, or anything else.
        like: A tensor in the model's own dtype, by which kernels are chosen.
        kept: bool `(num_tokens,)`: tokens of items that count; None: all.
        skipped: Leading tokens of a query that do not count.
    """
    asked = [one if isinstance(one, Compared) else None for one in roles]
    queries = {
        one.question: vectors[batch.offsets[place] + skipped : batch.offsets[place + 1]]
        for place, one in enumerate(asked)
        if one and one.is_query
    }
    for question, own in queries.items():
        # Of its own: the batch's would be kept with it.
        question.vectors = own.clone() if len(own) <= MAX_KEPT_TOKENS else None
    pairs = []
    for place, role in enumerate(asked):
        if role is None or role.is_query:
            continue
        found = queries.get(role.question, role.question.vectors)
        if found is not None:
            queries[role.question] = found
            pairs.append((place, role.question))
    if not pairs:
        return {"multivector": Rows(vectors, batch.offsets)}
    places = {question: place for place, question in enumerate(queries)}
    numbers = [(item, places[question]) for item, question in pairs]
    scores = maxsim(vectors, batch, list(queries.values()), numbers, like, kept)
    return _scores_and_others(vectors, scores, batch, {item for item, _ in pairs})


def maxsim(
    vectors: torch.Tensor,
    batch: PackedBatch,
    queries: Sequence[torch.Tensor],
    pairs: Sequence[tuple[int, int]],
    like: torch.Tensor,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Score items by queries, float32 `(num_pairs,)`; no token that counts: 0.

    Args:
        vectors: float32 `(num_tokens, dims)`, of unit length.
        batch: Tells which token belongs where.
        queries: float32 `(num_query_tokens, dims)` each.
        pairs: An item's place in the batch and its query's among the queries; at least one, items
            ascending.
        like: A tensor in the model's own dtype, by which kernels are chosen.
        kept: bool `(num_tokens,)`: tokens of items that count; None: all.
    """
    kernels = usable("maxsim", like, batch)
    if kernels is not None:
        found: torch.Tensor = kernels.maxsim(
            vectors.contiguous(), batch.cu_seqlens, queries, pairs, kept
        )
        return found
    scores = vectors.new_empty(len(pairs))
    numbered = sorted(enumerate(pairs), key=lambda one: one[1][1])
    for query, group in groupby(numbered, key=lambda one: one[1][1]):
        rows, items = zip(*((row, item) for row, (item, _) in group), strict=True)
        own = _of_one_query(vectors, batch, queries[query], items, kept)
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


def _scores_and_others(
    vectors: torch.Tensor, scores: torch.Tensor, batch: PackedBatch, items: set[int]
) -> Outputs:
    """Return the scores of items, and the token vectors of all that have none."""
    counts = [int(place in items) for place in range(batch.num_seqs)]
    lengths = [0 if has else length for has, length in zip(counts, batch.lengths, strict=True)]
    ends = pairwise(batch.offsets)
    others = [vectors[slice(*own)] for own, has in zip(ends, counts, strict=True) if not has]
    rest = torch.cat(others) if others else vectors[:0]
    return {
        "multivector": Rows(rest, (0, *accumulate(lengths))),
        "maxsim": Rows(scores, (0, *accumulate(counts))),
    }
