"""Long texts as overlapping windows of tokens, and one list of findings from all of them.

Knows token offsets and findings; knows no model.
"""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sie_mcp import wire

# Share of a window that the next one repeats: an entity cut at one border is whole in the other.
OVERLAP = 0.25


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens `first` to `last` (exclusive) of a text."""

    first: int
    last: int


def make_windows(num_tokens: int, room: int) -> list[Window]:
    """Cut a text of `num_tokens` into windows of at most `room`, evenly overlapping."""
    if num_tokens <= room:
        return [Window(0, num_tokens)]
    step = max(room - max(int(room * OVERLAP), 1), 1)
    windows = []
    first = 0
    while True:
        last = min(first + room, num_tokens)
        windows.append(Window(first, last))
        if last == num_tokens:
            return windows
        first += step


def shares(windows: Sequence[Window]) -> list[Window]:
    """Return the tokens that each window decides: every token once, none beside a border.

    What two windows see is halved between them.
    """
    borders = [(one.last + other.first) // 2 for one, other in itertools.pairwise(windows)]
    starts = [*(one.first for one in windows[:1]), *borders]
    ends = [*borders, *(one.last for one in windows[-1:])]
    return [Window(*share) for share in zip(starts, ends, strict=True)]


def merge(entities: Iterable[wire.Entity]) -> list[wire.Entity]:
    """Keep the best score of each (start, end, label), and none beside a longer one of its label.

    Windows see an entity at their border cut short: of two overlapping findings of one label the
    longer one stays, of two equally long ones the better.
    """
    best: dict[tuple[int, int, str], wire.Entity] = {}
    for entity in entities:
        key = (entity.start, entity.end, entity.label)
        if key not in best or entity.score > best[key].score:
            best[key] = entity
    kept: dict[str, list[wire.Entity]] = defaultdict(list)
    for entity in sorted(best.values(), key=_longest_then_best):
        # What is kept of a label never overlaps: only two neighbours can be in the way.
        own = kept[entity.label]
        place = bisect_left(own, entity.start, key=_start)
        if not any(_overlap(entity, other) for other in own[max(place - 1, 0) : place + 1]):
            own.insert(place, entity)
    return sorted(itertools.chain(*kept.values()), key=lambda one: (one.start, one.end, one.label))


def _start(entity: wire.Entity) -> int:
    return entity.start


def _longest_then_best(entity: wire.Entity) -> tuple[int, float, int]:
    return (entity.start - entity.end, -entity.score, entity.start)


def _overlap(a: wire.Entity, b: wire.Entity) -> bool:
    return a.start < b.end and b.start < a.end
