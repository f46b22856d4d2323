"""How a text is read: its words and windows, each joined with a prompt."""

from dataclasses import dataclass, replace

import numpy as np

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.gliner.forward import Layout
from sie_mcp.adapters.gliner.linking import LinkWish
from sie_mcp.adapters.gliner.prompts import Prompt
from sie_mcp.adapters.gliner.rule import SubtokenPooling
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_tokens import WordTokens
from sie_mcp.adapters.words import WordSpan

_OUTPUTS = frozenset({"logits"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One item: its words, its windows, and where among the sequences these stand.

    A window has a sequence for each prompt, one after the other.

    Attributes:
        text: The caller's own.
        starts: int64 `(num_words,)`, where each word of which the tokenizer makes something starts.
        ends: int64 `(num_words,)`, where it ends.
        tokens: Of the words.
        windows: In order.
        first_sequence: Of its first window and prompt.
        read_to: Where reading stopped; None: all is read.
    """

    text: str
    starts: np.ndarray
    ends: np.ndarray
    tokens: WordTokens
    windows: list[Window]
    first_sequence: int
    read_to: int | None

    @property
    def words(self) -> list[WordSpan]:
        """Where the words are; a list made anew, for those who need few."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


def join(
    prompt: Prompt,
    tokens: WordTokens,
    wish: LinkWish | None,
    tokenizer: TextTokenizer,
    pooling: SubtokenPooling,
) -> Sequence:
    """Join a prompt and a window's words."""
    ids = np.concatenate([prompt.ids, tokens.ids])
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
