"""Texts into categories: products, titles alone, renamed and mapped categories, and intents.

Run `python -m evals.taxonomy`; `--model` puts one model in place of the default two, `--reranker`
orders the 20 likeliest of each product once more. The labelled products are few (127: one
deviation of a share is about .04). What is chosen here is chosen on names of categories and scored
on the products; beside it stands what the older constants, looked for on the products, give.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evals import taxonomy_figures, taxonomy_sets
from evals.local import local_client
from evals.taxonomy_curves import confidence, curve_of
from evals.taxonomy_examples import few_shot, shots
from evals.taxonomy_labels import few_labels
from evals.taxonomy_report import report
from evals.taxonomy_scale import quiet
from evals.taxonomy_seen import Seen, beliefs, see
from sie_mcp.client import EngineClient
from sie_mcp.tools.categories.reranking import NUM_CANDIDATES, reordered
from sie_mcp.tools.decision import fuse
from sie_mcp.tools.similarity import best as nearest

RESULTS = Path(__file__).parent / "results"
MODELS = ("all-MiniLM-L6-v2", "potion-base-8M")
NUM_SPLITS = 20
# Weight of shared words; temperature and weight of the branches.
GRID = ((0.0, 0.5, 1.0), (0.4, 0.6, 0.8), (0.0, 0.3, 0.6, 1.0))
MIN_CONFIDENCES = (0.3, 0.5, 0.6, 0.7, 0.8)
NAMES = ("strict@1", "lenient@1", "level-1", "hF1")


def steps(seen: Seen) -> dict[str, np.ndarray]:
    """Return the likeliest nodes after each step of the pipeline."""
    both, none = seen.cosines, np.zeros_like(seen.words)
    scores = {
        "first model, whole text": seen.whole[0],
        "first model, title at half weight more": both[0],
        "companion, title at half weight more": both[-1],
        "both": fuse(both, none),
        "both + branches": seen.branches.decide(fuse(both, none)),
        "both + words": fuse(both, seen.words),
        "full: both + words + branches": seen.branches.decide(fuse(both, seen.words)),
    }
    return {name: found.argmax(axis=1) for name, found in scores.items()}


def choices(seen: Seen) -> list[np.ndarray]:
    """Return the four measures of each text under every choice of three constants."""
    return [
        seen.right(
            seen.branches.decide(
                fuse(seen.cosines, seen.words, words_weight=words),
                temperature=temperature,
                weight=weight,
            ).argmax(axis=1)
        )
        for words, temperature, weight in itertools.product(*GRID)
    ]


def chosen_elsewhere(here: list[np.ndarray], others: list[list[np.ndarray]]) -> dict[str, Any]:
    """Choose the constants by strict@1 + hF1 on other texts, and score these."""
    sums = np.mean([[one[:, [0, 3]].sum() / len(one) for one in other] for other in others], axis=0)
    place = int(np.argmax(sums))
    constants = list(itertools.product(*GRID))[place]
    return {"constants": constants, "measures": here[place].mean(axis=0)}


def chosen_on_halves(found: list[np.ndarray]) -> np.ndarray:
    """Choose the constants on one half of the same texts and score the other, both ways."""
    scored = []
    for seed in range(NUM_SPLITS):
        order = np.random.default_rng(seed).permutation(len(found[0]))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for here, there in (halves, halves[::-1]):
            best = max(found, key=lambda right: float(right[here][:, [0, 3]].sum()))
            scored.append(best[there].mean(axis=0))
    mean: np.ndarray = np.mean(scored, axis=0)
    return mean


def stopping(seen: Seen) -> list[dict[str, float]]:
    """With min_confidence: how many texts have an answer, how deep, and how often it is right.

    Right is an acceptable node, or one above it. Along the texts' own curve, as in a file.
    """
    best, _, shipped = beliefs(seen)
    curve = curve_of(seen)
    found = [replace(one, curve=curve) for one in shipped]
    paths, rows = seen.of.gold.tree.paths, []
    for asked in MIN_CONFIDENCES:
        right, depth = [], []
        for belief, node, accepted in zip(found, best, seen.of.gold.accepted, strict=True):
            path, sure = belief.depth(int(node), paths[node], asked)
            if sure >= asked:
                right.append(any(paths[one][: len(path)] == path for one in accepted))
                depth.append(len(path))
        rows.append(
            {
                "min_confidence": asked,
                "answered": round(len(right) / len(best), 3),
                "right": round(float(np.mean(right)), 3) if right else 0.0,
                "mean depth": round(float(np.mean(depth)), 2) if depth else 0.0,
            }
        )
    return rows


async def reranked(client: EngineClient, model: str, seen: Seen) -> np.ndarray:
    """Let a reranker order the likeliest nodes of each text; return its first."""
    shares, texts = seen.evidence().shares(seen.branches), dict(enumerate(seen.of.texts))
    listed = {place: nearest(share, NUM_CANDIDATES).tolist() for place, share in enumerate(shares)}
    order = await reordered(client, model, texts, listed, seen.of.gold.tree.paths, quiet)
    return np.array([order[place][0] for place in texts])


async def measure(models: Sequence[str], reranker: str) -> dict[str, Any]:
    """Run everything on one worker."""
    sets = taxonomy_sets
    chosen = (
        sets.products(), sets.titles(), sets.renamed(1), sets.renamed(2), sets.mapped(1),
        sets.mapped(2), sets.mapped(2, differ=True), sets.intents("clinc150"),
        sets.intents("banking77"),
    )  # fmt: skip
    began_s = time.perf_counter()
    async with local_client() as client:
        seen = [await see(client, models, texts) for texts in chosen]
        again = await reranked(client, reranker, seen[0]) if reranker else None
    encoded_s = time.perf_counter() - began_s
    products, titles, _, renamed, _, mapped, other_names, *flat = seen
    rows = {name: products.right(best).mean(axis=0) for name, best in steps(products).items()}
    found = choices(products)
    elsewhere = chosen_elsewhere(found, [choices(one) for one in (renamed, other_names)])
    rows["full, constants chosen on renamed and mapped categories"] = elsewhere["measures"]
    rows["full, constants chosen on one half, scored on the other"] = chosen_on_halves(found)
    if again is not None:
        rows[f"full, the {NUM_CANDIDATES} likeliest reranked by {reranker}"] = products.right(
            again
        ).mean(axis=0)
    rows["few-shot (5 folds, mean of 5 seeds)"] = few_shot(products, tuned=False)
    rows["few-shot, weights chosen inside the training folds"] = few_shot(products, tuned=True)
    return {
        "command": "python -m evals.taxonomy",
        "models": list(models),
        "products": len(products.words),
        "encode_seconds": round(encoded_s, 1),
        "decide_seconds": round(time.perf_counter() - began_s - encoded_s, 1),
        "rows": {name: _rounded(values) for name, values in rows.items()},
        "constants chosen elsewhere": elsewhere["constants"],
        "sets": {
            one.of.name: {"texts": len(one.words)} | _rounded(one.right(beliefs(one)[0]).mean(0))
            for one in seen
        },
        "few-shot of intents": {
            one.of.name: {name: round(value, 3) for name, value in shots(one).items()}
            for one in flat
        },
        "few labels": {name: row for one in flat for name, row in few_labels(one).items()},
        "stopping at parents": stopping(products),
        **confidence(products, titles, renamed, mapped, other_names, flat),
    }


def _rounded(values: np.ndarray) -> dict[str, float]:
    return {key: round(float(one), 3) for key, one in zip(NAMES, values, strict=True)}


def main() -> None:
    """Measure and record; other models than the default ones are only printed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="", help="one model in place of the default two")
    options.add_argument("--reranker", default="", help="orders the 20 likeliest once more")
    given = options.parse_args()
    models = (given.model,) if given.model else MODELS
    record = asyncio.run(measure(models, given.reranker))
    if given.model or given.reranker:
        print(report(record, NAMES))
        return
    RESULTS.mkdir(exist_ok=True)
    taxonomy_figures.draw(record, RESULTS)
    (RESULTS / "taxonomy.md").write_text(report(record, NAMES))
    record["risk_coverage"] = {
        name: points[:: max(1, len(points) // 20)]
        for name, points in record["risk_coverage"].items()
    }
    (RESULTS / "taxonomy.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
