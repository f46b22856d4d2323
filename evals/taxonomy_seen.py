"""Labelled texts as models see them, and what the pipeline thinks of each: numbers only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.taxonomy_sets import LabelledTexts
from sie_mcp.client import EngineClient
from sie_mcp.config import load_config
from sie_mcp.tools import decision
from sie_mcp.tools.belief import Belief, Evidence
from sie_mcp.tools.decision import Branches
from sie_mcp.tools.item_vectors import embed_items
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.vectors import embed_texts
from sie_mcp.tools.words import WordIndex

Indices = Sequence[int] | np.ndarray


@dataclass(frozen=True, slots=True)
class Seen:
    """Labelled texts as the models see them; `alike` are cosines among the texts, the mean."""

    of: LabelledTexts
    branches: Branches
    whole: list[np.ndarray]
    cosines: list[np.ndarray]
    words: np.ndarray
    alike: np.ndarray

    def evidence(self, train: Indices = (), test: Indices | None = None) -> Evidence:
        """Return what speaks for the nodes of some texts, with the labels of others."""
        rows = np.arange(len(self.words)) if test is None else np.asarray(test)
        nodes = [self.of.gold.node[one] for one in train]
        alike = self.alike[np.ix_(rows, np.asarray(train, int))]
        return Evidence([one[rows] for one in self.cosines], self.words[rows], alike, nodes)

    def right(self, best: np.ndarray) -> np.ndarray:
        """Return the four measures of each text."""
        return self.of.gold.right(best)


async def see(client: EngineClient, models: Sequence[str], texts: LabelledTexts) -> Seen:
    """Encode texts and nodes with each model."""
    store = NodeVectorStore(client, load_config().cache_dir / "taxonomies")
    tree = texts.gold.tree
    whole, cosines, alike = [], [], []
    for model in models:
        nodes = (await store.get(model, tree, _quiet)).values
        values = (await embed_items(client, model, texts.texts, progress=_quiet)).values
        plain = (await embed_texts(client, model, texts.texts)).values
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        whole.append(plain @ nodes.T)
        cosines.append(values @ nodes.T)
        alike.append(unit @ unit.T)
    words = WordIndex([path[-1] for path in tree.paths]).similarities(texts.heads)
    return Seen(texts, Branches(tree.paths), whole, cosines, words, np.mean(alike, axis=0))


async def _quiet(done: float, total: float, message: str) -> None:
    """Show nothing: the table at the end is enough."""


def beliefs(seen: Seen) -> tuple[np.ndarray, np.ndarray, list[Belief]]:
    """Return each text's likeliest node, the logarithm of its mean share, and its beliefs."""
    evidence = seen.evidence()
    best = evidence.shares(seen.branches).argmax(axis=1)
    alone = evidence.alone(seen.branches)
    found = [
        Belief(seen.branches, [one[row] for one in alone], decision.PRODUCTS)
        for row in range(len(best))
    ]
    logs = [
        np.log(decision.mean_share([float(one[node]) for one in belief.alone]))
        for belief, node in zip(found, best, strict=True)
    ]
    return best, np.array(logs), found
