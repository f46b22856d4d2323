"""What corrections are worth: the least sure products corrected, given back as examples, run again.

Run `python -m evals.taxonomy_feedback`. As an agent does it with `classify_taxonomy` and
`review_uncertain`. Scored are only products that nobody ever looks at: the other half of each
split. Beside it the same number of corrections of products taken at random.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np

from evals import taxonomy_sets
from evals.local import local_client
from evals.taxonomy_seen import Seen, beliefs, see

RESULTS = Path(__file__).parent / "results"
MODELS = ("all-MiniLM-L6-v2", "potion-base-8M")
CORRECTIONS = (0, 10, 20, 40, 60)
SPLITS = 20


def after(seen: Seen, corrected: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return the four measures of products, with others corrected."""
    best = np.array(seen.of.gold.node)
    best[scored] = seen.evidence(corrected, scored).shares(seen.branches).argmax(axis=1)
    mean: np.ndarray = seen.right(best)[scored].mean(axis=0)
    return mean


def measure(seen: Seen) -> dict[str, Any]:
    """Correct more and more products of one half, and score the other."""
    _, logs, _ = beliefs(seen)
    rows = []
    for count in CORRECTIONS:
        found: dict[str, list[np.ndarray]] = {"least sure": [], "at random": []}
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(logs))
            pool, scored = order[: len(order) // 2], order[len(order) // 2 :]
            least = pool[np.argsort(logs[pool], kind="stable")]
            found["least sure"].append(after(seen, least[:count], scored))
            found["at random"].append(after(seen, pool[:count], scored))
        for how, measures in found.items():
            strict, _, level, f1 = np.mean(measures, axis=0).round(3)
            rows.append(
                {"corrected": count, "which": how, "strict@1": strict, "level-1": level, "hF1": f1}
            )
    return {"command": "python -m evals.taxonomy_feedback", "splits": SPLITS, "rows": rows}


async def main() -> None:
    """Measure and record."""
    async with local_client() as client:
        seen = await see(client, MODELS, taxonomy_sets.products())
    record = measure(seen)
    (RESULTS / "taxonomy_feedback.json").write_text(json.dumps(record, indent=1) + "\n")
    for row in record["rows"]:
        print(row)


if __name__ == "__main__":
    asyncio.run(main())
