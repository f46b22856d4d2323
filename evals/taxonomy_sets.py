"""Texts with known categories: products, renamed categories, mapped ones, intents. Knows no models.

Products are what is scored; names of categories are other data, for choosing constants on.
"""

import gzip
from dataclasses import dataclass

import numpy as np

from evals import datasets, measures
from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy, built_in, from_paths
from sie_mcp.tools.item_vectors import head

NUM_MAPPED = 600
SEED = 0


@dataclass(frozen=True, slots=True)
class Gold:
    """For each text the right node, and all that are acceptable."""

    tree: Taxonomy
    node: list[int]
    accepted: list[set[int]]

    def right(self, best: np.ndarray) -> np.ndarray:
        """Return strict, lenient, level 1 and hF1 of each text, `(num_texts, 4)`."""
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

    def by_level(self, best: np.ndarray) -> list[float]:
        """Return for each depth the share of texts as deep that are right down to it."""
        paths = self.tree.paths
        pairs = [(paths[found], paths[node]) for found, node in zip(best, self.node, strict=True)]
        deepest = max(len(gold) for _, gold in pairs)
        return [
            float(np.mean([a[:depth] == b[:depth] for a, b in pairs if len(b) >= depth]))
            for depth in range(1, deepest + 1)
        ]


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts, what each says the thing is, and their categories."""

    name: str
    texts: list[str]
    heads: list[str]
    gold: Gold


def products() -> LabelledTexts:
    """Read the products: title and description."""
    titles, gold = _titles()
    rows = datasets.read_jsonl("products.dev.jsonl")
    texts = [f"{one['title']}. {one['description']}" for one in rows]
    return LabelledTexts("products", texts, titles, gold)


def titles() -> LabelledTexts:
    """Read the products' titles alone."""
    found, gold = _titles()
    return LabelledTexts("products, titles alone", found, found, gold)


def renamed(levels: int) -> LabelledTexts:
    """Read renamed categories: the last levels of the old path, and the new node."""
    tree = built_in("shopify")
    place = {name: node for node, name in enumerate(tree.ids or ())}
    rows = [(tuple(old.split(SEPARATOR)), place[new]) for old, new in _rows("renamed")]
    return _names(f"renamed categories, {levels} levels", tree, rows, levels)


def mapped(levels: int, *, differ: bool = False) -> LabelledTexts:
    """Read a sample of Shopify's categories, with their counterparts in Google's taxonomy.

    Half of them are called the same in both; `differ` leaves out those whose last names are equal.
    """
    shopify, google = built_in("shopify"), built_in("google")
    paths = dict(zip(shopify.ids or (), shopify.paths, strict=True))
    place = {path: node for node, path in enumerate(google.paths)}
    rows = [
        (paths[id_], place[tuple(to.split(SEPARATOR))]) for id_, to in _rows("shopify_to_google")
    ]
    if differ:
        rows = [(path, node) for path, node in rows if path[-1] != google.paths[node][-1]]
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:NUM_MAPPED]
    name = f"Shopify's categories in Google's{', other names' if differ else ''}, {levels} levels"
    return _names(name, google, [rows[one] for one in chosen], levels)


def intents(name: str) -> LabelledTexts:
    """Read requests of a flat set of intents: clinc150 or banking77."""
    rows = [line.split("\t") for line in _lines(f"{name}.sample.tsv")]
    labels = sorted({label for label, _ in rows})
    tree = from_paths([label.replace("_", " ") for label in labels])
    texts = [text for _, text in rows]
    nodes = [labels.index(label) for label, _ in rows]
    return LabelledTexts(
        name, texts, [head(one) or one for one in texts], Gold(tree, nodes, [{n} for n in nodes])
    )


def _titles() -> tuple[list[str], Gold]:
    tree = built_in("shopify")
    rows = datasets.read_jsonl("products.dev.jsonl")
    place = {name: node for node, name in enumerate(tree.ids or ())}
    node = [place[one["gold_id"]] for one in rows]
    accepted = [{place[name] for name in (one["gold_id"], *one["also_ids"])} for one in rows]
    return [one["title"] for one in rows], Gold(tree, node, accepted)


def _names(
    name: str, tree: Taxonomy, rows: list[tuple[tuple[str, ...], int]], levels: int
) -> LabelledTexts:
    texts = [SEPARATOR.join(path[-levels:]) for path, _ in rows]
    nodes = [node for _, node in rows]
    gold = Gold(tree, nodes, [{node} for node in nodes])
    return LabelledTexts(name, texts, [path[-1] for path, _ in rows], gold)


def _rows(name: str) -> list[list[str]]:
    data = gzip.decompress((datasets.DATA / "taxonomy" / f"{name}.tsv.gz").read_bytes())
    return [line.split("\t") for line in data.decode().rstrip("\n").split("\n")]


def _lines(name: str) -> list[str]:
    # Not splitlines(): some texts hold U+2028 and other characters that it cuts at.
    return (datasets.DATA / name).read_text().rstrip("\n").split("\n")
