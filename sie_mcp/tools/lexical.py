"""How far texts share a query's words: BM25 over the texts at hand. Strings and numbers only.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework. Words are compared by
their beginnings, which does for most languages what a stemmer does for one.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

K1, B = 1.2, 0.75  # the usual values
PREFIX_CHARS = 5
# Scripts without spaces between words give single characters, the others words.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


def word_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Score each text by the query's words in it; 0 for none."""
    wanted = set(_words(query))
    counts = [Counter(_words(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    weights = {word: _weight(sum(word in count for count in counts), len(texts)) for word in wanted}
    return [
        sum(
            weights[word]
            * count[word]
            * (K1 + 1)
            / (count[word] + K1 * (1 - B + B * length / mean))
            for word in sorted(wanted & count.keys())
        )
        for count, length in zip(counts, lengths, strict=True)
    ]


def _words(text: str) -> list[str]:
    return [word[:PREFIX_CHARS] for word in _WORD.findall(text.casefold())]


def _weight(num_texts_with: int, num_texts: int) -> float:
    return math.log(1 + (num_texts - num_texts_with + 0.5) / (num_texts_with + 0.5))
