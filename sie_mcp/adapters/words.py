"""Where the words of a text are, in any script. Knows characters; knows no tokens and no model.

A word is a run of letters and digits, hyphens and underscores inside it included; any other sign is
a word of its own. That is how models that read words were trained on English. Two things are added:

- Accents and vowel signs written as characters of their own, and joiners inside a word, belong to
  the letter before them: "é" is one letter in either spelling, and a Hindi word is one word.
- Scripts that put no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan)
  have a word a letter: the run between two spaces would be a sentence, and no name could be cut
  out of it.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# Start and end of a word, in code points of the text.
WordSpan = tuple[int, int]

# What GLiNER splits by, under the name "whitespace".
WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
_JOINERS = "\u200c\u200d"
_WITHOUT_SPACES = re.compile(
    "[\u0e01-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u0f40-\u0fbc\u1000-\u103f\u1050-\u109f\u1780-\u17d3"  # Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c"  # radicals and marks of Chinese
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9fe\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f"
    "\U0001aff0-\U0001b16f\U00020000-\U0003fffd]"
)

# Which code points separate words; above U+3000 none does.
_IS_SPACE = np.array([chr(code).isspace() for code in range(0x3002)])


@dataclass(frozen=True, slots=True)
class SplitText:
    """The words of a text, in order.

    Attributes:
        words: As they stand there.
        starts: int64 `(num_words,)`, in code points.
        ends: int64 `(num_words,)`.
    """

    words: list[str]
    starts: np.ndarray
    ends: np.ndarray


def split_texts(texts: Sequence[str]) -> list[SplitText]:
    """Return the words that `split_words` finds in each text; plain texts are read in one pass."""
    plain = [place for place, text in enumerate(texts) if _is_plain(text)]
    found = dict(zip(plain, _split_plain([texts[place] for place in plain]), strict=True))
    return [found.get(place) or _split_alone(text) for place, text in enumerate(texts)]


def split_words(text: str, pattern: re.Pattern[str] = WORD) -> list[WordSpan]:
    """Return the words of a text in order; spaces belong to none.

    Args:
        text: Of any script and length.
        pattern: What makes a word where letters have spaces between words.
    """
    if text.isascii():
        return [match.span() for match in pattern.finditer(text)]
    read = _with_letters_for_marks(text)
    if not _WITHOUT_SPACES.search(text):
        return [match.span() for match in pattern.finditer(read)]
    words: list[WordSpan] = []
    for match in pattern.finditer(read):
        start, end = match.span()
        if _WITHOUT_SPACES.search(text, start, end):
            words += _letters(text, start, end)
        else:
            words.append((start, end))
    return words


def _is_plain(text: str) -> bool:
    """Whether the pattern alone says what the words are."""
    return text.isascii() or not (
        _WITHOUT_SPACES.search(text) or any(map(_belongs_to_letter, set(text)))
    )


def _split_plain(texts: list[str]) -> list[SplitText]:
    """Split all at once: every character but a space is of one word, so lengths say where."""
    whole = "\n".join(texts)
    words = WORD.findall(whole)
    codes = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    letters = np.flatnonzero(~_IS_SPACE[np.minimum(codes, len(_IS_SPACE) - 1)])
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    behind = np.cumsum(lengths)
    starts, ends = letters[behind - lengths], letters[behind - 1] + 1
    sizes = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
    firsts = np.cumsum(sizes) - sizes
    places = np.append(np.searchsorted(starts, firsts), len(words))
    shifts = np.repeat(firsts, np.diff(places))
    starts, ends = starts - shifts, ends - shifts
    return [
        SplitText(words[first:last], starts[first:last], ends[first:last])
        for first, last in pairwise(places.tolist())
    ]


def _split_alone(text: str) -> SplitText:
    words = split_words(text)
    places = np.array(words, dtype=np.int64).reshape(-1, 2)
    return SplitText([text[start:end] for start, end in words], places[:, 0], places[:, 1])


def _with_letters_for_marks(text: str) -> str:
    """Return the text, as long as it was, with a letter for each mark that belongs to one."""
    marks = "".join(filter(_belongs_to_letter, set(text)))
    if not marks:
        return text
    letters = list(text)
    for match in re.finditer(f"[{re.escape(marks)}]", text):
        place = match.start()
        if place and letters[place - 1].isalnum():
            letters[place] = "a"
    return "".join(letters)


def _belongs_to_letter(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


def _letters(text: str, start: int, end: int) -> list[WordSpan]:
    """Cut a run into letters where its script has no spaces; leave other letters together."""
    words: list[WordSpan] = []
    first, is_alone = start, bool(_WITHOUT_SPACES.match(text, start))
    for place in range(start + 1, end):
        if _belongs_to_letter(text[place]):
            continue
        was_alone, is_alone = is_alone, bool(_WITHOUT_SPACES.match(text, place))
        if was_alone or is_alone:
            words.append((first, place))
            first = place
    return [*words, (first, end)]
