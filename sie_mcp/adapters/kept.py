"""From a probability a token to spans of a text that are highlighted, kept or pruned.

Offsets are code points of the caller's own string. Knows no model.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.runs import Run, to_entity

HIGHLIGHT, KEPT, PRUNED = LABELS = ("highlight", "kept", "pruned")


def spans(
    text: str,
    offsets: Sequence[tuple[int, int]],
    probabilities: np.ndarray,
    *,
    threshold: float,
    highlight_threshold: float | None,
) -> list[wire.Entity]:
    """Join neighbouring tokens of one label; a span's score is their mean probability.

    Args:
        text: What the tokens were made of.
        offsets: Start and end of each token in it.
        probabilities: That each token is kept, `(num_tokens,)`.
        threshold: From here on a token is kept.
        highlight_threshold: From here on it is highlighted as well; None: none is.
    """
    runs: list[Run] = []
    for start, end, scores in _pieces(text, zip(offsets, probabilities.tolist(), strict=True)):
        score = float(np.mean(scores))
        label = PRUNED if score < threshold else KEPT
        if highlight_threshold is not None and score >= highlight_threshold:
            label = HIGHLIGHT
        if not runs or runs[-1].label != label:
            runs.append(Run(label, start, end, []))
        runs[-1].end = end
        runs[-1].scores += scores
    return [to_entity(text, run) for run in runs]


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
