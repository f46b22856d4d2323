"""Products into Shopify's 10,595 categories: what each step of the pipeline adds, and calibration.

Run `python -m evals.taxonomy`. The labelled products are few (127: one deviation of a share is
about .04), and the pipeline's four constants were looked for on the same products, so that the
full row of the table is optimistic; see evals/results/taxonomy.md for what was chosen how.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from evals import datasets, measures
from evals.local import local_client
from evals.taxonomy_report import report
from sie_mcp.catalogue.taxonomy import Taxonomy, built_in
from sie_mcp.client import EngineClient
from sie_mcp.config import load_config
from sie_mcp.tools.classification import decide_depth
from sie_mcp.tools.decision import Branches, add_examples, fuse, probabilities, standardise
from sie_mcp.tools.item_vectors import HEAD_WEIGHT, embed_items
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.vectors import embed_texts
from sie_mcp.tools.words import WordIndex

RESULTS = Path(__file__).parent / "results"
MODELS = ("all-MiniLM-L6-v2", "potion-base-8M")
NUM_FOLDS = 5
SEEDS = 5
NUM_BINS = 10
NUM_SPLITS = 20
# Weight of shared words; temperature and weight of the branches.
GRID = ((0.0, 0.5, 1.0), (0.4, 0.6, 0.8), (0.0, 0.3, 0.6, 1.0))
MIN_CONFIDENCES = (0.3, 0.5, 0.6, 0.7, 0.8)
NAMES = ("strict@1", "lenient@1", "level-1", "hF1")


@dataclass(frozen=True, slots=True)
class Seen:
    """One model's cosines `(num_products, num_nodes)`, and those among products."""

    whole: np.ndarray
    with_head: np.ndarray
    alike: np.ndarray


@dataclass(frozen=True, slots=True)
class Gold:
    """For each product the right node, and all that are acceptable."""

    tree: Taxonomy
    node: list[int]
    accepted: list[set[int]]

    def right(self, best: np.ndarray) -> np.ndarray:
        """Return the four measures of each product, `(num_products, 4)`, in the order of NAMES."""
        paths = self.tree.paths
        rows = [
            (
                found == node,
                found in accepted,
                paths[found][0] == paths[node][0],
                max(measures.hierarchical_f1(paths[found], paths[one]) for one in accepted),
            )
            for found, node, accepted in zip(best, self.node, self.accepted, strict=True)
        ]
        return np.array(rows, float)


def read_gold(tree: Taxonomy) -> tuple[list[str], list[str], Gold]:
    """Read the products: titles, whole texts, and their nodes."""
    products = datasets.read_jsonl("products.dev.jsonl")
    place = {name: node for node, name in enumerate(tree.ids or ())}
    node = [place[one["gold_id"]] for one in products]
    accepted = [{place[name] for name in (one["gold_id"], *one["also_ids"])} for one in products]
    titles = [one["title"] for one in products]
    texts = [f"{one['title']}. {one['description']}" for one in products]
    return titles, texts, Gold(tree, node, accepted)


async def see(client: EngineClient, model: str, texts: list[str], tree: Taxonomy) -> Seen:
    """Encode products and nodes with one model."""
    store = NodeVectorStore(client, load_config().cache_dir / "taxonomies")
    nodes = await store.get(model, tree, _quiet)
    whole = await embed_texts(client, model, texts)
    both = (await embed_items(client, model, texts, progress=_quiet)).values
    unit = both / np.linalg.norm(both, axis=1, keepdims=True)
    return Seen(whole.values @ nodes.values.T, both @ nodes.values.T, unit @ unit.T)


async def _quiet(done: float, total: float, message: str) -> None:
    """Show nothing: the table at the end is enough."""


def few_shot(scores: np.ndarray, alike: np.ndarray, gold: Gold, branches: Branches) -> np.ndarray:
    """Classify each fold with the labels of the other four; the mean over seeds."""
    found = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(scores))
        best = np.empty(len(scores), int)
        for fold in range(NUM_FOLDS):
            test, train = order[fold::NUM_FOLDS], np.setdiff1d(order, order[fold::NUM_FOLDS])
            helped = add_examples(
                scores[test], alike[np.ix_(test, train)], [gold.node[one] for one in train]
            )
            best[test] = branches.decide(helped).argmax(axis=1)
        found.append(gold.right(best).mean(axis=0))
    mean: np.ndarray = np.mean(found, axis=0)
    return mean


def chosen_on_halves(
    both: Sequence[np.ndarray], shared: np.ndarray, gold: Gold, branches: Branches
) -> np.ndarray:
    """Choose three constants on one half by strict@1 + hF1 and score the other, both ways."""
    found = [
        gold.right(
            branches.decide(
                fuse(both, shared, words_weight=words), temperature=temperature, weight=weight
            ).argmax(axis=1)
        )
        for words, temperature, weight in itertools.product(*GRID)
    ]
    scored = []
    for seed in range(NUM_SPLITS):
        order = np.random.default_rng(seed).permutation(len(shared))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for here, there in (halves, halves[::-1]):
            sums = [float(right[here][:, [0, 3]].sum()) for right in found]
            best = found[int(np.argmax(sums))]
            scored.append(best[there].mean(axis=0))
    mean: np.ndarray = np.mean(scored, axis=0)
    return mean


def held_out(shares: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Fit the confidence curve on four folds for the fifth; the mean over seeds."""
    logs = np.log(shares)
    found = np.zeros((SEEDS, len(shares)))
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(shares))
        for fold in range(NUM_FOLDS):
            test = order[fold::NUM_FOLDS]
            train = np.setdiff1d(order, test)
            slope, offset = _logistic(logs[train], right[train])
            found[seed, test] = expit(slope * logs[test] + offset)
    mean: np.ndarray = found.mean(axis=0)
    return mean


def _logistic(logs: np.ndarray, right: np.ndarray) -> np.ndarray:
    def loss(line: np.ndarray) -> float:
        odds = line[0] * logs + line[1]
        return float((np.logaddexp(0, odds) - right * odds).sum() + line[0] ** 2 / 2)

    fitted: np.ndarray = minimize(loss, np.zeros(2)).x
    return fitted


def stopping(branches: Branches, shares: np.ndarray, gold: Gold) -> list[dict[str, float]]:
    """With min_confidence: how many texts have an answer, how deep, and how often it is right.

    Right is an acceptable node, or one above it.
    """
    rows = []
    for asked in MIN_CONFIDENCES:
        right, depth = [], []
        for share, accepted in zip(shares, gold.accepted, strict=True):
            best = gold.tree.paths[int(share.argmax())]
            path, sure = decide_depth(branches, share, best, asked)
            if sure >= asked:
                right.append(any(gold.tree.paths[one][: len(path)] == path for one in accepted))
                depth.append(len(path))
        rows.append(
            {
                "min_confidence": asked,
                "answered": round(len(right) / len(shares), 3),
                "right": round(float(np.mean(right)), 3) if right else 0.0,
                "mean depth": round(float(np.mean(depth)), 2) if depth else 0.0,
            }
        )
    return rows


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Return the calibration error, and accuracy of the surest half and quarter."""
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    gaps = [abs((confidence - right)[bins == one].sum()) for one in range(NUM_BINS)]
    surest = np.argsort(-confidence, kind="stable")
    expected = _chance_error(confidence, bins)
    return {
        "mean confidence": float(confidence.mean()),
        "strict@1": float(right.mean()),
        "ECE (10 bins)": float(sum(gaps) / len(right)),
        "ECE expected of a perfect calibration at this size": expected,
        "strict@1 at 50 % coverage": float(right[surest[: len(right) // 2]].mean()),
        "strict@1 at 25 % coverage": float(right[surest[: len(right) // 4]].mean()),
    }


def _chance_error(confidence: np.ndarray, bins: np.ndarray) -> float:
    """Return the ECE that outcomes drawn from the confidences themselves have, on average."""
    random = np.random.default_rng(0)
    errors = []
    for _ in range(500):
        gap = confidence - (random.random(len(confidence)) < confidence)
        errors.append(sum(abs(gap[bins == one].sum()) for one in range(NUM_BINS)))
    return float(np.mean(errors) / len(confidence))


async def measure() -> dict[str, Any]:
    """Run every row on one worker."""
    tree = built_in("shopify")
    titles, texts, gold = read_gold(tree)
    started = time.perf_counter()
    async with local_client() as client:
        minilm, potion = [await see(client, model, texts, tree) for model in MODELS]
    encoded = time.perf_counter()
    branches, index = Branches(tree.paths), WordIndex([path[-1] for path in tree.paths])
    shared = index.similarities(titles)
    both = [minilm.with_head, potion.with_head]
    fused = fuse(both, shared)
    decided = branches.decide(fused)
    without_words = standardise(standardise(both[0]) + standardise(both[1]))
    rows: dict[str, Callable[[], np.ndarray]] = {
        "MiniLM, whole text": lambda: minilm.whole,
        f"MiniLM, title at {HEAD_WEIGHT} more": lambda: minilm.with_head,
        f"potion, title at {HEAD_WEIGHT} more": lambda: potion.with_head,
        "MiniLM + potion": lambda: without_words,
        "MiniLM + potion + branches": lambda: branches.decide(without_words),
        "MiniLM + potion + words": lambda: fused,
        "MiniLM + words + branches": lambda: branches.decide(fuse(both[:1], shared)),
        "full: MiniLM + potion + words + branches": lambda: decided,
    }
    right = {name: gold.right(make().argmax(axis=1)).mean(axis=0) for name, make in rows.items()}
    right["full, constants chosen on one half, scored on the other"] = chosen_on_halves(
        both, shared, gold, branches
    )
    right["full, few-shot (5 folds, mean of 5 seeds)"] = few_shot(
        fused, (minilm.alike + potion.alike) / 2, gold, branches
    )
    strict = gold.right(decided.argmax(axis=1))[:, 0]
    shares = probabilities(decided)
    return {
        "command": "python -m evals.taxonomy",
        "products": len(texts),
        "encode_seconds": round(encoded - started, 1),
        "decide_seconds": round(time.perf_counter() - encoded, 1),
        "rows": {
            name: {key: round(float(one), 3) for key, one in zip(NAMES, values, strict=True)}
            for name, values in right.items()
        },
        "calibration": {
            key: round(value, 3)
            for key, value in calibration(held_out(shares.max(axis=1), strict), strict).items()
        },
        "stopping at parents": stopping(branches, shares, gold),
    }


def main() -> None:
    """Measure and record."""
    record = asyncio.run(measure())
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "taxonomy.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "taxonomy.md").write_text(report(record, NAMES))


if __name__ == "__main__":
    main()
