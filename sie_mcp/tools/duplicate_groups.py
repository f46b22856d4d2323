"""Groups of texts that say the same: the same words first, then near vectors. Knows no tool."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread
import numpy as np

from sie_mcp.client import Progress
from sie_mcp.tools.collection import Collection
from sie_mcp.tools.duplicates import Leaders

KeepRule = Literal["first", "last", "longest"]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Groups:
    """Which text is kept for which.

    Attributes:
        kept: For each text the number of the one kept for it, maybe its own.
        similarity: The cosine of the two; 1 where the words are the same.
        num_exact: How many dropped texts have the same words as a text before them.
    """

    kept: np.ndarray
    similarity: np.ndarray
    num_exact: int

    def members(self) -> dict[int, list[int]]:
        """Return the dropped texts by the kept one, the largest group first."""
        found: dict[int, list[int]] = {}
        for number, kept in enumerate(self.kept.tolist()):
            if kept != number:
                found.setdefault(kept, []).append(number)
        return dict(sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])))


async def find_groups(
    collection: Collection,
    threshold: float,
    rule: KeepRule,
    *,
    same_numbers: bool,
    progress: Progress,
) -> Groups:
    """Group texts with the same words, then those whose vectors are near."""
    order = _order(collection.texts, rule)
    first, same = await anyio.to_thread.run_sync(_exact, collection.texts, order)
    marks = _marks(collection.texts, first) if same_numbers else np.zeros(len(first), np.int64)
    leaders = Leaders(collection.vectors[first], threshold, marks)
    for block in leaders.blocks:
        await progress(block.start, len(first), "comparing texts")
        await anyio.to_thread.run_sync(leaders.step, block, abandon_on_cancel=True)
    kept = np.arange(len(order))
    similarity = np.ones(len(order), np.float32)
    for number, leader, score in zip(first, leaders.leader, leaders.similarity, strict=True):
        kept[number], similarity[number] = first[leader], score
    for number, one in same.items():
        kept[number], similarity[number] = kept[one], similarity[one]
    return Groups(kept, similarity, len(same))


def _order(texts: Sequence[str], rule: KeepRule) -> list[int]:
    """Return the numbers of texts, the most wanted first."""
    numbers = range(len(texts))
    if rule == "longest":
        return sorted(numbers, key=lambda number: (-len(texts[number]), number))
    return list(reversed(numbers)) if rule == "last" else list(numbers)


def _exact(texts: Sequence[str], order: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Return the first of each different text in order, and for the others which that is."""
    seen: dict[bytes, int] = {}
    same: dict[int, int] = {}
    for number in order:
        # Spaces and the way letters are composed make no other text.
        words = unicodedata.normalize("NFC", " ".join(texts[number].split()))
        digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
        if digest in seen:
            same[number] = seen[digest]
        else:
            seen[digest] = number
    return list(seen.values()), same


def _marks(texts: Sequence[str], numbers: Sequence[int]) -> np.ndarray:
    """Return for each text a mark of the numbers in it, whatever their order."""
    marks: dict[tuple[str, ...], int] = {}
    return np.array(
        [
            marks.setdefault(tuple(sorted(_NUMBER.findall(texts[number]))), len(marks))
            for number in numbers
        ],
        np.int64,
    )
