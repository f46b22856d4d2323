"""What an agent reads of a file of categories: counts, and the rows it is least sure of.

Rows are added one by one and forgotten, but for the few that will be shown.
"""

import heapq
from collections import Counter

from sie_mcp.catalogue.taxonomy import SEPARATOR
from sie_mcp.tools.categories.choice import Category
from sie_mcp.tools.categories.labelled import ClassifyResult, Labelled, LeastSure
from sie_mcp.tools.result import SCORE_DIGITS, num_fitting, or_none, shown_counts

MAX_TOP_CATEGORIES = 20
# One row in so many, and at least some: of a short list few are worth another look.
LEAST_SURE_EVERY, MIN_LEAST_SURE, MAX_LEAST_SURE = 100, 3, 20
# With the counts and what stands around them a summary stays below 1,500 tokens.
LEAST_SURE_TOKENS = 1_250
EXCERPT_CHARS = 48


class Summary:
    """Counts rows by top category and keeps the least sure ones."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._num_unsure = self._num_at_parent = 0
        # The surest of the least sure first; no two rows have the same index.
        self._least: list[tuple[float, int, LeastSure]] = []
        self._shown: set[str] = set()

    def add(self, entry: Labelled, text: str) -> None:
        """Count a row."""
        self._counts[entry.path.split(SEPARATOR)[0]] += 1
        self._num_unsure += entry.unsure or False
        self._num_at_parent += entry.at_parent or False
        key = (-(entry.confidence or 0.0), -entry.index)
        if len(self._least) == MAX_LEAST_SURE and key <= self._least[0][:2]:
            return
        row = _least_sure(entry, text)
        # What reads the same would say nothing new.
        if row.text in self._shown:
            return
        self._shown.add(row.text)
        heapq.heappush(self._least, (*key, row))
        if len(self._least) > MAX_LEAST_SURE:
            self._shown.remove(heapq.heappop(self._least)[2].text)

    def put_into(self, result: ClassifyResult, max_tokens: int) -> None:
        """Fill in the result's summary, counts of no more than a part of `max_tokens`."""
        num_rows = self._counts.total()
        result.num_unsure = or_none(self._num_unsure)
        result.num_at_parent = or_none(self._num_at_parent)
        share = round(self._num_unsure / num_rows, SCORE_DIGITS) if num_rows else 0.0
        result.share_unsure = share or None
        result.counts, num_others = shown_counts(self._counts, MAX_TOP_CATEGORIES, max_tokens)
        result.other_counts = or_none(num_others)
        rows = [row for *_, row in sorted(self._least, key=lambda one: (-one[0], -one[1]))]
        most = max(num_rows // LEAST_SURE_EVERY, MIN_LEAST_SURE)
        result.least_sure = rows[: min(num_fitting(rows, LEAST_SURE_TOKENS), most)]


def _least_sure(entry: Labelled, text: str) -> LeastSure:
    return LeastSure(
        index=entry.index,
        id=entry.id,
        source=entry.source,
        text=text[:EXCERPT_CHARS],
        path=entry.path,
        confidence=entry.confidence or 0.0,
        alternatives=[_short(other) for other in entry.alternatives or []] or None,
    )


def _short(category: Category) -> str:
    """Name a category in few words: its id says the rest, or its parent tells it from others."""
    names = category.path.split(SEPARATOR)
    if category.category_id:
        return f"{category.category_id} {names[-1]}"
    return SEPARATOR.join(names[-2:])
