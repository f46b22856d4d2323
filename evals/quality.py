"""Quality figures of the starter models on real data, through the worker, against known values.

Run `python -m evals.quality`. Exits with 1 when a figure differs from its reference by more than
the tolerance. References: the models' own libraries (sentence-transformers, model2vec,
transformers) on the same data, recorded in evals/LOG.md.
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from evals import datasets, measures
from evals.figures import Figure, retrieval_figures
from evals.local import local_client
from evals.persons import MODEL as PERSONS
from evals.persons import persons_f1
from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import built_in
from sie_mcp.client import EngineClient
from sie_mcp.config import load_config
from sie_mcp.tools.categories.choice import Choice
from sie_mcp.tools.classification import classify
from sie_mcp.tools.node_vectors import NodeVectorStore

RESULTS = Path(__file__).parent / "results"
MINILM, SPLADE, POTION = "all-MiniLM-L6-v2", "splade-tiny", "potion-base-8M"
# Late interaction is quadratic in memory here: as many queries as the recorded reference used.
MAXSIM_QUERIES = 300
CRANFIELD_MINILM = {"nDCG@10": 0.3953, "R@100": 0.7756}
TAXONOMY_FLOORS = {"strict@1": 0.425, "lenient@1": 0.504, "lenient@10": 0.898, "hF1": 0.683}
CRANFIELD_SPLADE = {"nDCG@10": 0.3761, "R@100": 0.7283}


async def dense(client: EngineClient, model: str, texts: list[str], *, query: bool) -> np.ndarray:
    """Encode texts as unit vectors, `(len(texts), dims)`; a blank text is the zero vector.

    Cranfield has a few documents without text, which the worker refuses.
    """
    params = wire.EncodeParams(
        output_types=["dense"], options=wire.EncodeOptions(is_query=query, normalize=True)
    )
    filled = [place for place, text in enumerate(texts) if text.strip()]
    answer = await client.encode(model, [wire.Item(text=texts[place]) for place in filled], params)
    found = np.stack([item.dense.values for item in answer.items if item.dense])
    vectors = np.zeros((len(texts), found.shape[1]), np.float32)
    vectors[filled] = found
    return vectors


async def sparse(client: EngineClient, texts: list[str]) -> scipy.sparse.csr_array:
    """Encode texts with SPLADE at the 256 tokens its reference was measured with."""
    params = wire.EncodeParams(output_types=["sparse"], options=wire.EncodeOptions(max_length=256))
    filled = [place for place, text in enumerate(texts) if text.strip()]
    answer = await client.encode(SPLADE, [wire.Item(text=texts[place]) for place in filled], params)
    found = [item.sparse for item in answer.items if item.sparse]
    rows = np.repeat(filled, [len(one.indices) for one in found])
    columns = np.concatenate([one.indices for one in found])
    values = np.concatenate([one.values for one in found])
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(len(texts), found[0].dims))


async def similarity(client: EngineClient, model: str, reference: float) -> Figure:
    """Spearman correlation with human judgement on STS-B dev."""
    gold, first, second = datasets.read_sts()
    a = await dense(client, model, first, query=False)
    b = await dense(client, model, second, query=False)
    value = float(spearmanr((a * b).sum(axis=1), gold).statistic)
    return Figure(model, "STS-B dev Spearman", value, reference)


async def dense_retrieval(
    client: EngineClient, name: str, model: str, references: dict[str, float]
) -> list[Figure]:
    """Search a whole collection by cosine."""
    data = datasets.read_retrieval(name)
    documents = await dense(client, model, data.documents, query=False)
    queries = await dense(client, model, data.queries, query=True)
    return retrieval_figures(data, queries @ documents.T, model, references)


async def sparse_retrieval(client: EngineClient, references: dict[str, float]) -> list[Figure]:
    """Search Cranfield by the dot product of SPLADE vectors."""
    data = datasets.read_retrieval("cranfield")
    documents = await sparse(client, data.documents)
    queries = await sparse(client, data.queries)
    return retrieval_figures(data, (queries @ documents.T).toarray(), SPLADE, references)


async def late_interaction(client: EngineClient, reference: float) -> list[Figure]:
    """Recall@1 of MaxSim over MiniLM token vectors on XQuAD, beside the mean vector's."""
    data = datasets.read_retrieval("xquad_en")
    queries, query_ids = data.queries[:MAXSIM_QUERIES], data.query_ids[:MAXSIM_QUERIES]
    documents = await _token_vectors(client, data.documents)
    scores = np.array(
        [
            [float((query @ document.T).max(axis=1).sum()) for document in documents]
            for query in await _token_vectors(client, queries)
        ]
    )
    means = await dense(client, MINILM, data.documents, query=False)
    asked = await dense(client, MINILM, queries, query=True)
    return [
        Figure(MINILM, f"xquad_en {name} R@1", first_hit(matrix, query_ids, data), expected, True)
        for name, matrix, expected in (
            ("MaxSim", scores, reference),
            ("mean vector", asked @ means.T, None),
        )
    ]


async def _token_vectors(client: EngineClient, texts: list[str]) -> list[np.ndarray]:
    params = wire.EncodeParams(output_types=["multivector"])
    answer = await client.encode(MINILM, [wire.Item(text=text) for text in texts], params)
    return [item.multivector.values for item in answer.items if item.multivector]


def first_hit(scores: np.ndarray, query_ids: list[str], data: datasets.Retrieval) -> float:
    """Share of the queries whose best document is relevant."""
    runs = measures.rankings(scores, data.document_ids, 1)
    hits = [run[0] in data.relevant[q] for run, q in zip(runs, query_ids, strict=True)]
    return float(np.mean(hits))


async def taxonomy(client: EngineClient) -> list[Figure]:
    """Classify the labelled products into Shopify's tree; floors: the plain two-view baseline."""
    products = datasets.read_jsonl("products.dev.jsonl")
    texts = [f"{one['title']}. {one['description']}" for one in products]
    store = NodeVectorStore(client, load_config().cache_dir / "taxonomies")
    found = await classify(
        client, store, MINILM, texts, built_in("shopify"), choice=Choice(10), progress=_quiet
    )
    best = [text.categories for text in found.texts]
    golds = [{one["gold_id"], *one["also_ids"]} for one in products]
    strict = [ten[0].category_id == one["gold_id"] for ten, one in zip(best, products, strict=True)]
    lenient = [ten[0].category_id in gold for ten, gold in zip(best, golds, strict=True)]
    at_ten = [
        any(category.category_id in gold for category in ten)
        for ten, gold in zip(best, golds, strict=True)
    ]
    tree = built_in("shopify")
    paths = dict(zip(tree.ids or (), tree.paths, strict=True))
    f1 = [
        max(measures.hierarchical_f1(ten[0].path.split(" > "), paths[node_id]) for node_id in gold)
        for ten, gold in zip(best, golds, strict=True)
    ]
    values = {"strict@1": strict, "lenient@1": lenient, "lenient@10": at_ten, "hF1": f1}
    return [
        Figure(MINILM, f"taxonomy {name}", float(np.mean(numbers)), TAXONOMY_FLOORS[name], True)
        for name, numbers in values.items()
    ]


async def _quiet(done: int, total: int, message: str) -> None:
    """Show nothing: the table at the end is enough."""


async def measure() -> list[Figure]:
    """Run every evaluation on one worker."""
    async with local_client() as client:
        figures = [
            await similarity(client, MINILM, 0.8672),
            await similarity(client, POTION, 0.8281),
            *await dense_retrieval(client, "cranfield", MINILM, CRANFIELD_MINILM),
            *await dense_retrieval(client, "xquad_en", MINILM, {"nDCG@10": 0.9433}),
            *await dense_retrieval(client, "cranfield", POTION, {"nDCG@10": 0.3129}),
            *await dense_retrieval(client, "xquad_en", POTION, {"nDCG@10": 0.9116}),
            *await sparse_retrieval(client, CRANFIELD_SPLADE),
            *await late_interaction(client, 0.957),
            *await taxonomy(client),
            await persons(client),
        ]
    return figures


async def persons(client: EngineClient) -> Figure:
    """Find persons with the model for personal data.

    The reference reads whole sentences; our shorter windows find names that it loses in long ones.
    """
    found = await persons_f1(client)
    return Figure(PERSONS, "wikigold persons F1", found, 0.775, is_floor=True)


async def measure_persons() -> list[Figure]:
    """Run that evaluation alone."""
    async with local_client() as client:
        return [await persons(client)]


def show(figures: list[Figure]) -> None:
    """Print the figures as a table."""
    table = Table("model", "measure", "value", "reference", "right")
    for figure in figures:
        expected = "" if figure.reference is None else f"{figure.reference:.4f}"
        table.add_row(
            figure.model,
            figure.measure,
            f"{figure.value:.4f}",
            expected,
            "yes" if figure.is_right else "NO",
        )
    Console().print(table)


def main() -> int:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["persons"], help="its figure alone; others stay")
    only = parser.parse_args().only
    started = time.perf_counter()
    figures = asyncio.run(measure_persons() if only else measure())
    show(figures)
    record(figures, time.perf_counter() - started, keeps_others=bool(only))
    return 0 if all(figure.is_right for figure in figures) else 1


def record(
    figures: list[Figure], seconds: float, *, keeps_others: bool, folder: Path = RESULTS
) -> None:
    """Write the figures, in place of those of before or, of the same measure, among them."""
    path = folder / "quality.json"
    rows = [asdict(figure) for figure in figures]
    kept = {"command": "python -m evals.quality", "seconds": round(seconds, 1)}
    if keeps_others:
        before = json.loads(path.read_text())
        own = {(one["model"], one["measure"]) for one in rows}
        others = [one for one in before["figures"] if (one["model"], one["measure"]) not in own]
        kept, rows = {key: before[key] for key in kept}, [*others, *rows]
    folder.mkdir(exist_ok=True)
    path.write_text(json.dumps({**kept, "figures": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
