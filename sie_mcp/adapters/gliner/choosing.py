"""From the candidates of many texts to findings, all texts at once.

Words of all texts are numbered through, so that no two texts overlap. Knows words by number alone.
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp.adapters.gliner.candidates import Candidates
from sie_mcp.adapters.span_decoding import Overlap, kept_places

# Behind every word: a window that is not there holds nothing.
_NOWHERE = (2**62, -1)


@dataclass(frozen=True, slots=True)
class Borders:
    """Where sequences stand among the words, and the windows beside them: rows of first and last.

    Attributes:
        own: int64 `(num_seqs, 2)`; the word after the last one.
        before: The same of the window before; of none, what holds nothing.
        behind: The same of the window behind.
    """

    own: np.ndarray
    before: np.ndarray
    behind: np.ndarray

    @classmethod
    def of(cls, texts: list[list[tuple[int, int]]]) -> "Borders":
        """Read the windows of each text, in order."""
        own = [one for windows in texts for one in windows]
        before = [one for windows in texts for one in (_NOWHERE, *windows)[: len(windows)]]
        behind = [one for windows in texts for one in (*windows[1:], _NOWHERE)[: len(windows)]]
        return cls(*(np.array(one, np.int64).reshape(-1, 2) for one in (own, before, behind)))

    @property
    def any_beside(self) -> bool:
        """Whether a text has more than one window."""
        return bool((self.behind[:, 1] > 0).any())

    def whole(self, found: Candidates, windows: np.ndarray) -> np.ndarray:
        """Return which candidates no other window may see more of; see `is_cut`.

        Args:
            found: Places among all words.
            windows: int64, the window of each.
        """
        own = self.own[windows]
        at_start, at_end = found.firsts == own[:, 0], found.lasts == own[:, 1]
        first, last = found.firsts - at_start, found.lasts + at_end
        is_held = np.zeros(len(found), dtype=bool)
        for other in (self.before[windows], self.behind[windows]):
            is_held |= (other[:, 0] <= first) & (last <= other[:, 1])
        whole: np.ndarray = ~((at_start | at_end) & is_held)
        return whole


def best_of_each(found: Candidates) -> Candidates:
    """Keep the best score of each place and label, where it was found first."""
    order, heads = _runs(found.firsts, found.lasts, found.labels)
    if len(heads) == len(found):
        return found
    firsts = order[heads]
    again = np.argsort(firsts, kind="stable")
    best = np.maximum.reduceat(found.scores[order], heads)[again]
    one = found.some(firsts[again])
    return Candidates(one.firsts, one.lasts, one.labels, best)


def without_overlaps(
    found: Candidates,
    ranks: np.ndarray,
    lengths: np.ndarray,
    overlap: Overlap,
    *,
    multi_label: bool,
) -> Candidates:
    """Choose as `span_decoding.without_overlaps` does; return what is kept in its order.

    Args:
        found: At most one of each place and label.
        ranks: int64 `(num_labels,)`, the place of each label in the order of their names.
        lengths: int64 `(num_candidates,)`, in characters: what has more words may be shorter.
        overlap: What may overlap what.
        multi_label: One place may have several labels.
    """
    if len(found) and overlap != "all":
        found = found.some(_kept(found, lengths, overlap, multi_label=multi_label))
    return found.some(np.lexsort((ranks[found.labels], found.lasts, found.firsts)))


def _kept(
    found: Candidates, lengths: np.ndarray, overlap: Overlap, *, multi_label: bool
) -> np.ndarray:
    order, heads = _runs(found.firsts, found.lasts)
    scores = found.scores[order]
    best = np.maximum.reduceat(scores, heads)
    firsts, lasts = found.firsts[order[heads]], found.lasts[order[heads]]
    # Places are in order, and a stable sort leaves ties so: first what starts first, then ends.
    wanted = (
        np.lexsort((-best, -lengths[order[heads]]))
        if overlap == "longest"
        else np.argsort(-best, kind="stable")
    )
    places = zip(firsts[wanted].tolist(), lasts[wanted].tolist(), strict=True)
    is_kept = np.zeros(len(heads), dtype=bool)
    is_kept[wanted[kept_places(places, overlap)]] = True
    sizes = np.diff(heads, append=len(order))
    if multi_label:
        which = np.flatnonzero(np.repeat(is_kept, sizes))
    else:
        # Of a place's labels the best, of equals the first.
        numbers = np.where(scores == np.repeat(best, sizes), np.arange(len(order)), len(order))
        which = np.minimum.reduceat(numbers, heads)[is_kept]
    kept: np.ndarray = order[which]
    return kept


def _runs(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a stable order by keys, and where in it each different row of keys begins."""
    joint = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        joint = joint * (int(key.max(initial=0)) + 1) + key
    order = np.arange(len(joint))
    if (joint[1:] < joint[:-1]).any():
        order = np.argsort(joint, kind="stable")
        joint = joint[order]
    is_head = np.ones(len(joint), dtype=bool)
    is_head[1:] = joint[1:] != joint[:-1]
    return order, np.flatnonzero(is_head)
