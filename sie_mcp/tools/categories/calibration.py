"""The curve that reads shares as confidence, fitted to the texts at hand, without any label.

Two models that err apart choose the same node about as often as one of them is right: how often
they do, by what share each gives its own choice, is a curve of confidence for these texts and this
taxonomy. (Disagreement as an estimate of error: Jiang et al., Assessing Generalization of SGD via
Disagreement, 2022.) Measured by evals/taxonomy.py. Numbers only: knows neither models nor texts.
"""

from collections.abc import Sequence

import numpy as np

from sie_mcp.tools.decision import TINY, Curve

# Fewer texts say too little, more change nothing (evals/LOG.md, 17).
MIN_TEXTS, MAX_TEXTS = 50, 256
# How firmly a fit is held to the curve that it starts from, in squares of slope and offset.
HOLD = 1.0
_MAX_STEPS = 50
_CLOSE = 1e-8


def opinions(alone: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return what the first two models think, each alone, of its own choice.

    Args:
        alone: Each model's shares of the nodes, `(num_texts, num_nodes)`.

    Returns:
        The logarithms of the share that each gives its likeliest node, and whether that is the
        other's too: `(num_texts, 2)` both.
    """
    first, second = alone[:2]
    logs = np.log(np.stack([first.max(axis=1), second.max(axis=1)], axis=1) + TINY)
    is_same = first.argmax(axis=1) == second.argmax(axis=1)
    return logs, np.repeat(is_same[:, None], 2, axis=1).astype(float)


def fit(logs: np.ndarray, right: np.ndarray, start: Curve, *, hold: float = HOLD) -> Curve:
    """Fit a logistic curve over logarithms of shares, by Newton's method.

    Args:
        logs: Of the shares, any shape.
        right: 1 where it was right and 0 where it was not, of the same shape.
        start: The curve that `hold` keeps it near.
        hold: 0 lets it go where it likes, unless all are right or none is.
    """
    x = np.stack([logs.ravel(), np.ones(logs.size)], axis=1)
    y, held = right.ravel(), np.array([start.slope, start.offset])
    line = held.copy()
    for _ in range(_MAX_STEPS):
        sure = 1 / (1 + np.exp(-np.clip(x @ line, -30, 30)))
        gradient = x.T @ (sure - y) + hold * (line - held)
        curvature = (x * (sure * (1 - sure))[:, None]).T @ x + (hold + TINY) * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        line -= np.clip(step, -1, 1)
        if abs(step).max() < _CLOSE:
            break
    # A larger share is never less sure.
    return Curve(max(float(line[0]), 0.0), float(line[1]))
