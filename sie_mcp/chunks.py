"""Long lists: cut into chunks for a worker, and its answers put together again. Pure.

Knows the wire contract; knows neither HTTP nor workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from sie_mcp import wire
from sie_mcp.errors import InferenceError, InvalidInput, SieError

# Small enough that progress moves and a cancel loses little; large enough to fill batches.
CHUNK_ITEMS = 128
CHUNK_CHARS = 4_000_000
# Bytes of an image that count as a character: 16 MB of them fill a chunk.
IMAGE_BYTES = 4
MAX_CONCURRENT_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class Split:
    """How long lists are cut.

    Attributes:
        max_items: Of a chunk.
        max_chars: Of a chunk's texts, unless it has one item only; four bytes at most each.
        max_concurrent: Chunks that are sent at a time.
        shared: Counts the chunks of all calls together; without it each call counts its own.
    """

    max_items: int = CHUNK_ITEMS
    max_chars: int = CHUNK_CHARS
    max_concurrent: int = MAX_CONCURRENT_CHUNKS
    shared: anyio.CapacityLimiter | None = None

    def limiter(self) -> anyio.CapacityLimiter:
        """Return what a call's chunks wait at."""
        return self.shared or anyio.CapacityLimiter(self.max_concurrent)


SPLIT = Split()


def chunks(items: Sequence[wire.Item], split: Split = SPLIT) -> list[list[wire.Item]]:
    """Cut a list where a chunk has enough items or characters.

    Raises:
        InvalidInput: the list is empty.
    """
    if not items:
        raise InvalidInput("items is empty; send at least one")
    chunks: list[list[wire.Item]] = [[]]
    num_chars = 0
    for item in items:
        size = len(item.text or "") + sum(len(one.data) for one in item.images or ()) // IMAGE_BYTES
        is_full = len(chunks[-1]) == split.max_items or num_chars + size > split.max_chars
        if chunks[-1] and is_full:
            chunks.append([])
            num_chars = 0
        chunks[-1].append(item)
        num_chars += size
    return chunks


def check_complete(response: wire.Response, num_items: int) -> None:
    """Refuse an answer that does not have exactly one entry an item.

    Raises:
        InferenceError: entries are missing, doubled or too many.
    """
    if isinstance(response, wire.ScoreResponse):
        places = sorted(score.index for score in response.scores)
    else:
        places = list(range(len(response.items)))
    if places != list(range(num_items)):
        raise InferenceError(f"the worker answered {len(places)} results for {num_items} items")


def totals(parts: Sequence[wire.Response]) -> dict[str, Any]:
    """Sum the tokens read; of the times, keep the longest of each: chunks run side by side."""
    timings = [part.timing.model_dump() for part in parts]
    longest = {name: max(timing[name] for timing in timings) for name in wire.Timing.model_fields}
    tokens = sum(part.usage.input_tokens for part in parts)
    return {"timing": wire.Timing(**longest), "usage": wire.Usage(input_tokens=tokens)}


def merge_scores(
    parts: Sequence[wire.ScoreResponse], items: Sequence[wire.Item]
) -> list[wire.Score]:
    """Number all scores by their place in the whole list and rank them together."""
    merged: list[wire.Score] = []
    offset = 0
    for part in parts:
        for score in part.scores:
            index = offset + score.index
            item_id = items[index].id or f"item-{index}"
            merged.append(score.model_copy(update={"index": index, "item_id": item_id}))
        offset += len(part.scores)
    merged.sort(key=lambda s: (s.score is None, -(s.score or 0.0), s.index))
    return [score.model_copy(update={"rank": rank}) for rank, score in enumerate(merged)]


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a caller should see: our own error before anything else."""
    typed, _ = group.split(SieError)
    found: BaseException = typed or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
