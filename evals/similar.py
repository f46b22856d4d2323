"""How well `deduplicate` and `cluster` do with MiniLM, and how long 10,000 rows take to compare.

Run `python -m evals.similar`; it needs `sie-mcp[search,evals]`. Duplicates are made of XQuAD
paragraphs (copies, other case and spaces, the first 85 %) among the same with a number changed,
which are none; pairs of STS-B of at least 4.5 are paraphrases, those of 2 to 3.5 stand among them.
Clusters are the intents of CLINC150, whose out-of-scope queries are noise, beside scikit-learn's.
"""

import argparse
import asyncio
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from evals.datasets import read_clinc, read_retrieval, read_sts
from evals.local import local_client
from sie_mcp import wire
from sie_mcp.config import load_config
from sie_mcp.tools.cluster import NOISE, Clusters, find_clusters
from sie_mcp.tools.collection import Collection, embed_rows
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.duplicate_groups import find_groups
from sie_mcp.tools.index.encoder import find_encoder
from sie_mcp.tools.inputs import Inputs

MINILM = "all-MiniLM-L6-v2"
THRESHOLDS = (0.85, 0.9, 0.95, 0.97)
KINDS = ("exact", "case_space", "truncated", "paraphrase")
NUM_ROWS, NUM_INTENTS = 10_000, 150
RESULTS = Path(__file__).parent / "results" / "similar.json"


@dataclass(frozen=True, slots=True)
class Made:
    """Rows with where each comes from: rows of one origin are duplicates of each other."""

    texts: list[str]
    origins: list[str]
    kinds: list[str]


def make_paragraphs() -> Made:
    """Make duplicates, and what only looks like them, of paragraphs."""
    rows: list[tuple[str, str, str]] = []
    for number, text in enumerate(read_retrieval("xquad_en").documents):
        rows.append((text, f"p{number}", "first"))
        rows.append((text, f"p{number}", "exact"))
        rows.append((text.upper().replace(" ", "  "), f"p{number}", "case_space"))
        rows.append((text[: len(text) * 85 // 100], f"p{number}", "truncated"))
        changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), text, count=1)
        if changed != text:
            rows.append((changed, f"n{number}", "number"))
    return Made(*(list(column) for column in zip(*rows, strict=True)))


def make_paraphrases() -> Made:
    """Take sentences of pairs that say the same, and of pairs that do not."""
    rows: dict[str, tuple[str, str]] = {}
    for number, (score, first, second) in enumerate(zip(*read_sts(), strict=True)):
        if score >= 4.5:
            rows.setdefault(first, (f"s{number}", "first"))
            rows.setdefault(second, (rows[first][0], "paraphrase"))
        elif 2 <= score <= 3.5:
            rows.setdefault(first, (f"a{number}", "first"))
            rows.setdefault(second, (f"b{number}", "first"))
    texts = list(rows)
    return Made(texts, [rows[text][0] for text in texts], [rows[text][1] for text in texts])


async def measure_duplicates(context: ToolContext, made: Made) -> list[dict[str, Any]]:
    """Drop rows, and count which were right and which are missed."""
    collection = await embed(context, made.texts)
    found = []
    for same_numbers in (True, False):
        for threshold in THRESHOLDS:
            groups = await find_groups(
                collection, threshold, "first", same_numbers=same_numbers, progress=ignore
            )
            dropped = [row for row, kept in enumerate(groups.kept.tolist()) if kept != row]
            right = {row for row in dropped if made.origins[row] == made.origins[groups.kept[row]]}
            recall = {
                kind: share(row in right for row, one in enumerate(made.kinds) if one == kind)
                for kind in KINDS
                if kind in made.kinds
            }
            precision = share(row in right for row in dropped)
            found.append(
                {"same_numbers": same_numbers, "threshold": threshold, "num_dropped": len(dropped)}
                | {"precision": precision, "recall": recall}
            )
    return found


async def measure_clusters(context: ToolContext) -> list[dict[str, Any]]:
    """Cluster queries, with as many clusters as intents and without a number."""
    intents, queries = read_clinc()
    collection = await embed(context, queries)
    vectors = collection.vectors
    found = []
    for name, number in (("cluster", NUM_INTENTS), ("cluster, automatic", None)):
        started = time.perf_counter()
        clusters = await find_clusters(vectors, number, ignore)
        seconds = time.perf_counter() - started
        bare = await find_clusters(vectors, clusters.num, ignore, noise=False)
        found.append(
            {"what": name, "num_clusters": clusters.num, "seconds": round(seconds, 1)}
            | agreement(intents, bare.labels)
            | noise_figures(intents, clusters)
        )
    model = KMeans(NUM_INTENTS, n_init=3, random_state=0).fit(vectors)
    found.append(
        {"what": "scikit-learn KMeans", "num_clusters": NUM_INTENTS}
        | agreement(intents, model.labels_)
    )
    return found


async def measure_size() -> dict[str, Any]:
    """Compare and cluster vectors of as many rows as a call takes; a third are near another."""
    random = np.random.default_rng(1)
    vectors = random.normal(size=(NUM_ROWS, 384)).astype(np.float32)
    third = NUM_ROWS // 3
    vectors[-third:] = vectors[:third] + 0.1 * random.normal(size=(third, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"row {number}" for number in range(NUM_ROWS)]
    collection = Collection(MINILM, "row", texts, vectors, None, None)  # type: ignore[arg-type]
    started = time.perf_counter()
    groups = await find_groups(collection, 0.95, "first", same_numbers=False, progress=ignore)
    compared = time.perf_counter()
    await find_clusters(vectors, None, ignore)
    clustered = time.perf_counter()
    return {
        "num_rows": NUM_ROWS,
        "num_dropped": int((groups.kept != np.arange(NUM_ROWS)).sum()),
        "deduplicate_s": round(compared - started, 1),
        "cluster_automatic_s": round(clustered - compared, 1),
    }


async def embed(context: ToolContext, texts: list[str]) -> Collection:
    """Make vectors as the tools do."""
    encoder = await find_encoder(context.client, MINILM, ignore)
    inputs = Inputs([wire.Item(text=text) for text in texts], list(range(len(texts))))
    return await embed_rows(context, inputs, encoder, ignore)


def agreement(gold: list[str], labels: np.ndarray) -> dict[str, float]:
    """Compare clusters with intents, the out-of-scope queries apart."""
    kept = [row for row, intent in enumerate(gold) if intent != "oos"]
    names, numbers = np.unique([gold[row] for row in kept], return_inverse=True)
    counts = np.zeros((labels.max() + 1, len(names)), np.int64)
    np.add.at(counts, (labels[kept], numbers), 1)
    return {
        "nmi": round(float(normalized_mutual_info_score(numbers, labels[kept])), 3),
        "purity": round(float(counts.max(axis=1).sum() / len(kept)), 3),
    }


def noise_figures(gold: list[str], clusters: Clusters) -> dict[str, float]:
    """How many of the texts set apart are out of scope, and how many of those are set apart."""
    noise = (clusters.labels == NOISE).tolist()
    return {
        "noise_precision": share(
            gold[row] == "oos" for row, is_noise in enumerate(noise) if is_noise
        ),
        "noise_recall": share(noise[row] for row, intent in enumerate(gold) if intent == "oos"),
    }


def share(claims: Any) -> float:
    """Return how many of the claims are true; of none all are."""
    values = list(claims)
    return round(sum(values) / len(values), 3) if values else 1.0


async def ignore(done: int, total: int, message: str) -> None:
    """Show no progress."""


async def measure() -> dict[str, Any]:
    """Measure all of it, with a store of its own."""
    with tempfile.TemporaryDirectory() as place:
        config = load_config().model_copy(update={"index_dir": place})
        async with local_client() as client:
            context = ToolContext(client, config)
            return {
                "command": "python -m evals.similar --save",
                "model": MINILM,
                "cpus": os.cpu_count(),
                "load_average": round(os.getloadavg()[1], 1),
                "paragraphs": await measure_duplicates(context, make_paragraphs()),
                "paraphrases": await measure_duplicates(context, make_paraphrases()),
                "clinc150": await measure_clusters(context),
                "size": await measure_size(),
            }


def main() -> None:
    """Print tables; write the figures with --save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    figures = asyncio.run(measure())
    for name in ("paragraphs", "paraphrases", "clinc150"):
        rows = figures[name]
        table = Table(*dict.fromkeys(key for row in rows for key in row), title=name)
        for row in rows:
            table.add_row(*(str(row.get(column.header, "")) for column in table.columns))
        Console(width=160).print(table)
    print(figures["size"])
    if given.save:
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
