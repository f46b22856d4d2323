"""How sure is right among a few of the labels that intents have: by the curve, and by cosines."""

import numpy as np

from evals import taxonomy_confidence as measure
from evals.taxonomy_curves import sure_along
from evals.taxonomy_seen import Seen
from sie_mcp.tools.belief import Evidence
from sie_mcp.tools.decision import PRODUCTS, TINY, Branches

COUNTS = (2, 5, 20, 40)
# As many texts of each count, about.
MIN_DRAWS, LABELS_DRAWN = 12, 600
SHOWN = (
    "mean confidence",
    "strict@1",
    "ECE (10 bins)",
    "strict@1 at 50 % coverage",
)


def few_labels(seen: Seen) -> dict[str, dict[str, float]]:
    """Draw labels, classify their texts among them alone, and measure both confidences."""
    num_labels = seen.words.shape[1]
    tables = {}
    for count in (*COUNTS, num_labels):
        draws = 1 if count == num_labels else max(MIN_DRAWS, LABELS_DRAWN // count)
        random = np.random.default_rng(count)
        parts = [
            _among(seen, random.choice(num_labels, count, replace=False)) for _ in range(draws)
        ]
        right, curve, cosines = (np.concatenate(part) for part in zip(*parts, strict=True))
        for way, sure in (("curve", curve), ("cosines, as served", cosines)):
            table = measure.calibration(sure, right)
            name = f"{seen.of.name}, {count} labels: {way}"
            tables[name] = {key: round(table[key], 3) for key in SHOWN}
    return tables


def _among(seen: Seen, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which texts of some labels are right among them, and how sure both ways are."""
    node = np.array(seen.of.gold.node)
    rows = np.flatnonzero(np.isin(node, labels))
    own = np.ix_(rows, labels)
    evidence = Evidence([one[own] for one in seen.cosines], seen.words[own], np.zeros((0, 0)))
    branches = Branches([seen.of.gold.tree.paths[one] for one in labels])
    best = evidence.shares(branches).argmax(axis=1)
    texts = np.arange(len(best))
    logs = [np.log(one[texts, best] + TINY) for one in evidence.alone(branches)]
    right = (labels[best] == node[rows]).astype(float)
    return right, sure_along(PRODUCTS, np.mean(logs, axis=0)), evidence.by_cosines()[texts, best]
