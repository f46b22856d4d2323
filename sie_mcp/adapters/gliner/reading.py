"""How a text is read: its words and windows, each joined with a prompt; and spans back in it."""

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.gliner.candidates import Candidates
from sie_mcp.adapters.gliner.forward import Layout
from sie_mcp.adapters.gliner.linking import LinkWish
from sie_mcp.adapters.gliner.prompts import Prompt
from sie_mcp.adapters.gliner.rule import SubtokenPooling
from sie_mcp.adapters.span_decoding import Span
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_tokens import WordTokens
from sie_mcp.adapters.word_windows import is_cut
from sie_mcp.adapters.words import WordSpan

_OUTPUTS = frozenset({"logits"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One item: its words, its windows, and where among the sequences these stand.

    A window has a sequence for each prompt, one after the other.

    Attributes:
        text: The caller's own.
        words: Of which the tokenizer makes something.
        tokens: Of the words.
        windows: In order.
        first_sequence: Of its first window and prompt.
        read_to: Where reading stopped; None: all is read.
    """

    text: str
    words: list[WordSpan]
    tokens: WordTokens
    windows: list[Window]
    first_sequence: int
    read_to: int | None


def join(
    prompt: Prompt,
    tokens: WordTokens,
    wish: LinkWish | None,
    tokenizer: TextTokenizer,
    pooling: SubtokenPooling,
) -> Sequence:
    """Join a prompt and a window's words."""
    ids = np.concatenate([np.array(prompt.ids, dtype=np.int64), tokens.ids])
    before = tokenizer.num_before
    first = before + len(prompt.ids)
    num_words, sizes = len(tokens.sizes), tokens.sizes
    if pooling == "first":
        places, words = first + np.cumsum(sizes) - sizes, np.arange(num_words)
    elif pooling == "last":
        places, words = first + np.cumsum(sizes) - 1, np.arange(num_words)
    else:
        places, words = first + np.arange(len(tokens.ids)), np.repeat(np.arange(num_words), sizes)
    markers = tuple(before + marker for marker in prompt.markers)
    if wish is not None:
        wish = replace(wish, markers=tuple(before + marker for marker in wish.markers))
    layout = Layout(places, words, num_words, markers, prompt.labels, wish)
    return Sequence(tokenizer.with_special_tokens(ids), outputs=_OUTPUTS, extra=layout)


def spans_in_text(
    reading: Reading, window: Window, found: Candidates, labels: list[str]
) -> list[Span]:
    """Return a window's findings in the text, but those of which another window sees more."""
    firsts, lasts = found.firsts + window.first, found.lasts + window.first
    near = _near(reading.windows, window)
    if len(near) > 1:
        at_border = (firsts == window.first) | (lasts == window.last)
        stays = np.ones(len(firsts), dtype=bool)
        for place in np.flatnonzero(at_border):
            stays[place] = not is_cut(window, int(firsts[place]), int(lasts[place]), near)
        firsts, lasts, found = firsts[stays], lasts[stays], found.some(stays)
    words = reading.words
    return [
        Span(words[first][0], words[last - 1][1], labels[label], score)
        for first, last, label, score in zip(
            firsts.tolist(),
            lasts.tolist(),
            found.labels.tolist(),
            found.scores.tolist(),
            strict=True,
        )
    ]


def _near(windows: list[Window], window: Window) -> list[Window]:
    """Return the windows beside one; no farther one overlaps it by as much."""
    place = bisect_right(windows, window.first, key=lambda one: one.first) - 1
    return windows[max(place - 1, 0) : place + 2]
