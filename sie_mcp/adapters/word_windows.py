"""Long texts as overlapping windows of words. Knows how many tokens words have; knows no model."""

from collections.abc import Sequence

import numpy as np

from sie_mcp.adapters.windows import Window


def make_word_windows(
    sizes: Sequence[int] | np.ndarray, *, max_words: int, max_tokens: int, overlap: int
) -> list[Window]:
    """Cut a text into windows within both limits; a word larger than a window has one alone.

    Args:
        sizes: Tokens of each word.
        max_words: Of a window.
        max_tokens: Of a window.
        overlap: Words that a window repeats of the one before, half of that one at most.
    """
    windows: list[Window] = []
    ends = np.cumsum(sizes)
    if 0 < len(ends) <= max_words and ends[-1] <= max_tokens:
        return [Window(0, len(ends))]
    first = before = 0
    while first < len(ends):
        fits = int(np.searchsorted(ends, before + max_tokens, side="right"))
        last = max(min(fits, first + max_words), first + 1)
        windows.append(Window(first, last))
        if last == len(ends):
            break
        first = max(last - overlap, first + (last - first + 1) // 2)
        before = int(ends[first - 1])
    return windows


def is_cut(window: Window, first: int, last: int, windows: Sequence[Window]) -> bool:
    """Whether a finding may be half of one that another window sees whole.

    It touches a border inside the text, and another window holds it with something on that side.

    Args:
        window: Where it was found.
        first: Its first word.
        last: The word after it.
        windows: All of the text, in order.
    """
    at_start, at_end = first == window.first, last == window.last
    return (at_start or at_end) and any(
        other.first <= first - at_start and last + at_end <= other.last
        for other in windows
        if other is not window
    )
