"""Which names share words with a text, by the cosine of their word weights. Knows no models.

Rare words count more (inverse document frequency over the names); a plural's ending does not
count. Embeddings blur rare words, and this keeps near ones apart.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

_WORD = re.compile(r"\w+")
# Endings of English plurals and what takes their place, the longest first.
_PLURALS = (("ies", "y"), ("ses", "s"), ("xes", "x"), ("hes", "h"), ("s", ""))
_MIN_STEM = 3


def words(text: str) -> list[str]:
    """Return a text's words in lower case and in the singular."""
    return [_singular(word) for word in _WORD.findall(text.casefold())]


def _singular(word: str) -> str:
    if word.endswith("ss"):
        return word
    for ending, instead in _PLURALS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) >= _MIN_STEM:
            return word.removesuffix(ending) + instead
    return word


class WordIndex:
    """An inverted index of names: for each word the names that have it, and its weight there."""

    def __init__(self, names: Sequence[str]) -> None:
        counts = [Counter(words(name)) for name in names]
        frequency = Counter(word for count in counts for word in count)
        self._num_names = len(names)
        self._idf = {
            word: float(np.log((len(names) + 1) / (num + 0.5))) for word, num in frequency.items()
        }
        entries: dict[str, list[tuple[int, float]]] = {word: [] for word in frequency}
        for place, count in enumerate(counts):
            for word, weight in self._weighted(count).items():
                entries[word].append((place, weight))
        self._places = {
            word: np.array([place for place, _ in found]) for word, found in entries.items()
        }
        self._weights = {
            word: np.array([weight for _, weight in found], np.float32)
            for word, found in entries.items()
        }

    def similarities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the cosine of each text with every name, float32 `(num_texts, num_names)`.

        Words that no name has are left out.
        """
        scores = np.zeros((len(texts), self._num_names), np.float32)
        for row, text in zip(scores, texts, strict=True):
            known = Counter(word for word in words(text) if word in self._idf)
            for word, weight in self._weighted(known).items():
                row[self._places[word]] += np.float32(weight) * self._weights[word]
        return scores

    def _weighted(self, count: Counter[str]) -> dict[str, float]:
        weighted = {word: num * self._idf[word] for word, num in count.items()}
        norm = float(np.sqrt(sum(weight**2 for weight in weighted.values()))) or 1.0
        return {word: weight / norm for word, weight in weighted.items()}
