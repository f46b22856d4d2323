"""From a probability a token to spans of a text that are highlighted, kept or pruned.

Offsets are code points of the caller's own string. Knows no model.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.runs import Run, to_entity
from sie_mcp.catalogue.entries import Profile
from sie_mcp.sentences import split_sentences

HIGHLIGHT, KEPT, PRUNED = LABELS = ("highlight", "kept", "pruned")


def token_spans(
    text: str, offsets: Sequence[tuple[int, int]], probabilities: np.ndarray, profile: Profile
) -> list[wire.Entity]:
    """Join neighbouring tokens of one label; a span's score is their mean probability.

    Args:
        text: What the tokens were made of.
        offsets: Start and end of each token in it.
        probabilities: That each token is kept, `(num_tokens,)`.
        profile: From where on it is kept, and highlighted.
    """
    runs: list[Run] = []
    for start, end, scores in _pieces(text, zip(offsets, probabilities.tolist(), strict=True)):
        label = label_of(float(np.mean(scores)), profile)
        if not runs or runs[-1].label != label:
            runs.append(Run(label, start, end, []))
        runs[-1].end = end
        runs[-1].scores += scores
    return [to_entity(text, run) for run in runs]


def sentence_spans(
    text: str, offsets: Sequence[tuple[int, int]], probabilities: np.ndarray, profile: Profile
) -> list[wire.Entity]:
    """Judge each sentence by the mean probability of its tokens; arguments as in `token_spans`."""
    runs = [Run("", one.start, one.end, []) for one in split_sentences(text)]
    starts = [run.start for run in runs]
    for (start, end), probability in zip(offsets, probabilities.tolist(), strict=True):
        if text[start:end].strip():
            # By its last letter: the space before a word may be the word's own.
            runs[max(bisect_right(starts, end - 1) - 1, 0)].scores.append(probability)
    return [to_entity(text, run) for run in _labelled(runs, profile)]


def label_of(probability: float, profile: Profile) -> str:
    """Return what becomes of a unit."""
    highlight = profile.highlight_threshold
    if highlight is not None and probability >= highlight:
        return HIGHLIGHT
    return KEPT if probability >= profile.threshold else PRUNED


def _labelled(runs: Iterable[Run], profile: Profile) -> Iterator[Run]:
    """Label what the tokenizer made any token of."""
    for run in runs:
        if run.scores:
            run.label = label_of(float(np.mean(run.scores)), profile)
            yield run


def _pieces(
    text: str, tokens: Iterable[tuple[tuple[int, int], float]]
) -> list[tuple[int, int, list[float]]]:
    """Return what the tokens cover, those that are parts of one letter together, blanks not."""
    pieces: list[tuple[int, int, list[float]]] = []
    for (start, end), probability in tokens:
        if not text[start:end].strip():
            continue
        if pieces and start < pieces[-1][1]:
            before, last, scores = pieces[-1]
            pieces[-1] = (before, max(last, end), [*scores, probability])
        else:
            pieces.append((start, end, [probability]))
    return pieces
