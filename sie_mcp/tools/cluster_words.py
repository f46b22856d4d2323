"""Words that tell clusters of texts apart, for a label: class TF-IDF. Knows no vectors.

A word's weight in a cluster is the share of the cluster's texts that hold it, times the logarithm
of how much larger that share is than among the other texts: words that stand everywhere weigh
nothing, in any language, without a list of them. Scripts without spaces between words have none.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

MIN_CHARS, MAX_CHARS = 3, 30
# A word of one text alone says nothing of a cluster of several.
MIN_TEXTS = 2
# Of the heaviest word's weight; less says little beside it.
MIN_PART = 0.25
_WORD = re.compile(rf"[^\W\d_]{{{MIN_CHARS},{MAX_CHARS}}}")
_TOKEN = re.compile(r"\w+")


def distinguishing_words(
    texts: Sequence[str], labels: Sequence[int], num_clusters: int, k: int
) -> list[list[str]]:
    """Return for each cluster its `k` heaviest words, heaviest first, ties by the alphabet.

    Args:
        texts: All texts.
        labels: The cluster of each; a negative one is of none, and counts among all.
        num_clusters: How many clusters there are.
        k: How many words.
    """
    everywhere: Counter[str] = Counter()
    inside: list[Counter[str]] = [Counter() for _ in range(num_clusters)]
    for text, label in zip(texts, labels, strict=True):
        words = {token for token in _TOKEN.findall(text.casefold()) if _WORD.fullmatch(token)}
        everywhere.update(words)
        if label >= 0:
            inside[label].update(words)
    sizes = Counter(label for label in labels if label >= 0)
    return [
        _heaviest(counts, sizes[label], everywhere, len(texts), k)
        for label, counts in enumerate(inside)
    ]


def _heaviest(
    counts: Counter[str], size: int, everywhere: Counter[str], num_texts: int, k: int
) -> list[str]:
    least = min(MIN_TEXTS, size)
    others = num_texts - size
    weights = {}
    for word, count in counts.items():
        if count >= least:
            # Half a text more, so that a word of this cluster alone has a weight too.
            outside = (everywhere[word] - count + 0.5) / (others + 1)
            weights[word] = count / size * math.log(count / size / outside)
    order = sorted(weights, key=lambda word: (-weights[word], word))[:k]
    return [word for word in order if weights[word] > max(0, MIN_PART * weights[order[0]])]
