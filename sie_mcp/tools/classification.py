"""Texts to categories: scores of models and words fused, decided in the tree. Knows no files."""

import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import anyio.to_thread
import numpy as np

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.tools.belief import Belief, Evidence
from sie_mcp.tools.categories import calibration
from sie_mcp.tools.categories.choice import (
    Category,
    Choice,
    Classification,
    Classified,
    category_of,
    with_examples_of,
)
from sie_mcp.tools.categories.pictures import Pictured, PictureReader
from sie_mcp.tools.categories.reranking import NUM_CANDIDATES, reordered
from sie_mcp.tools.categories.seen import Seen
from sie_mcp.tools.decision import MEASURED, PRODUCTS, Branches, Curve
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.item_vectors import head
from sie_mcp.tools.name_indexes import indexes
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.readings import Reader, make_reader
from sie_mcp.tools.similarity import BLOCK_SCORES, best
from sie_mcp.tools.words import WordIndex

logger = logging.getLogger(__name__)

# Reads beside the default model: a static model that costs next to nothing and errs elsewhere.
COMPANION = "potion-base-8M"
# Blocks that are decided side by side. Few cores are a local worker's, which encodes meanwhile.
NUM_THREADS = max(1, min(4, (os.cpu_count() or 1) // 4))


@dataclass(frozen=True, slots=True)
class Classifier:
    """What is the same for every text: made once by `prepare`, then used for block after block."""

    client: EngineClient
    taxonomy: Taxonomy
    choice: Choice
    readers: list[Reader]
    branches: Branches
    index: WordIndex
    pictures: PictureReader | None = None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return self.readers[0].model

    @property
    def companion(self) -> str | None:
        """The model that reads along."""
        return self.readers[1].model if len(self.readers) > 1 else None

    async def look(
        self,
        texts: Sequence[str],
        progress: Progress,
        *,
        heads: Sequence[str] | None = None,
        images: Sequence[str] = (),
        vectors: Sequence[np.ndarray] = (),
    ) -> Seen:
        """Let every model see the texts; it is no error that none could be encoded.

        `vectors` are the texts' own, of each model, where they are known.
        """
        if vectors:
            both = zip(self.readers, vectors, strict=True)
            views = [reader.view_of(values) for reader, values in both]
        else:
            views = [await reader.view(self.client, texts, progress) for reader in self.readers]
        failed = {place: why for view in views for place, why in view.failed.items()}
        pictured = await self.pictures.look(images, progress) if self.pictures else Pictured()
        heads = heads or [head(text) or text for text in texts]
        seen = Seen(texts, heads, views, failed, pictured)
        return await self._reordered(seen, progress) if self.choice.reranker else seen

    async def _reordered(self, seen: Seen, progress: Progress) -> Seen:
        candidates = await anyio.to_thread.run_sync(self._candidates, seen)
        texts, paths = dict(enumerate(seen.texts)), self.taxonomy.paths
        model = self.choice.reranker
        order = await reordered(self.client, model, texts, candidates, paths, progress)
        return replace(seen, order=order)

    def _candidates(self, seen: Seen) -> dict[int, list[int]]:
        """Return the likeliest nodes of each text."""
        found: dict[int, list[int]] = {}
        for block in self._blocks(seen.places):
            shares = self._evidence_of_all(seen, block).shares(self.branches)
            most = min(NUM_CANDIDATES, shares.shape[1])
            for place, share in zip(block, shares, strict=True):
                found[place] = best(share, most).tolist()
        return found

    def calibrated(self, seen: Seen) -> "Classifier":
        """Fit the confidence to texts and examples, by how often the models agree on them.

        Unchanged with one model, too few different texts, or where cosines say how sure is right;
        no more than the first texts are read. Pictures are left out: models that look at the same
        one would agree by that alone.
        """
        if len(self.readers) < 2 or self._goes_by_cosines:
            return self
        unique = {text: place for place, text in reversed(list(enumerate(seen.texts)))}
        places = sorted(place for place in unique.values() if place not in seen.failed)
        places = places[: calibration.MAX_TEXTS]
        read = np.all([reader.examples.any(axis=1) for reader in self.readers], axis=0)
        examples = np.flatnonzero(read)[: calibration.MAX_TEXTS - len(places)].tolist()
        if len(places) + len(examples) < calibration.MIN_TEXTS:
            return self
        evidence = itertools.chain(
            (self.evidence(seen, block) for block in self._blocks(places)),
            (self._left_out(block) for block in self._blocks(examples)),
        )
        found = [calibration.opinions(one.alone(self.branches)) for one in evidence]
        logs, same = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return self.with_curve(calibration.fit(logs, same, self.choice.curve))

    def with_curve(self, curve: Curve) -> "Classifier":
        """Return one that reads shares as confidence along another curve."""
        return replace(self, choice=replace(self.choice, curve=curve))

    def decide(self, seen: Seen) -> Classification:
        """Score, decide and describe texts in blocks, so that memory stays bounded."""
        with ThreadPoolExecutor(NUM_THREADS) as pool:
            blocks = pool.map(lambda block: self._block(seen, block), self._blocks(seen.places))
            found = list(itertools.chain.from_iterable(blocks))
        return Classification(self.model, self.companion, found, seen.failed)

    def _blocks(self, places: Sequence[int]) -> Iterator[Sequence[int]]:
        step = max(1, BLOCK_SCORES // len(self.taxonomy.paths) // 4)
        return (places[start : start + step] for start in range(0, len(places), step))

    def evidence(self, seen: Seen, places: Sequence[int]) -> Evidence:
        """Return what speaks for the nodes of some texts; pictures are left out."""
        chosen = [view.rows(places) for view in seen.views]
        cosines = [
            view.texts[rows] @ view.nodes.T for view, rows in zip(seen.views, chosen, strict=True)
        ]
        words = self.index.similarities([seen.heads[place] for place in places])
        alike = np.mean(
            [view.likeness[rows] for view, rows in zip(seen.views, chosen, strict=True)], axis=0
        )
        return Evidence(cosines, words, alike, self.choice.examples.nodes)

    def _left_out(self, places: Sequence[int]) -> Evidence:
        """Return what speaks for the nodes of some examples, each without itself."""
        texts, nodes = self.choice.examples.texts, self.choice.examples.nodes
        chosen = [reader.examples[places] for reader in self.readers]
        both = list(zip(chosen, self.readers, strict=True))
        alike = np.mean([some @ reader.examples.T for some, reader in both], axis=0)
        alike[np.arange(len(places)), places] = -1.0
        words = self.index.similarities([head(texts[one]) or texts[one] for one in places])
        return Evidence([some @ one.nodes.values.T for some, one in both], words, alike, nodes)

    def beliefs(self, evidence: Evidence) -> list[Belief]:
        """Return what is thought of each text."""
        curve: Curve | None = self.choice.curve
        alone = evidence.alone(self.branches)
        if self._goes_by_cosines:
            curve, alone = None, [evidence.by_cosines()]
        num_texts = len(evidence.words)
        return [
            Belief(self.branches, [one[row] for one in alone], curve) for row in range(num_texts)
        ]

    @property
    def _goes_by_cosines(self) -> bool:
        """Whether cosines alone say how sure is right: of few labels curves are too sure."""
        has_more = self.choice.examples.texts or self.pictures is not None
        is_measured = self.model in MEASURED and self.choice.curve == PRODUCTS
        return is_measured and not has_more and self.branches.are_labels

    def _block(self, seen: Seen, places: Sequence[int]) -> list[Classified]:
        evidence = self._evidence_of_all(seen, places)
        shares = evidence.shares(self.branches)
        truncated = set(seen.views[0].truncated)
        found = []
        for row, (place, belief) in enumerate(zip(places, self.beliefs(evidence), strict=True)):
            listed = seen.order.get(place) or self._listed(shares[row])
            near = evidence.cosines[0][row]
            categories, sure, is_above = self._categories(near, listed, belief)
            is_cut, problem = place in truncated, seen.pictured.problems.get(place)
            found.append(Classified(place, categories, sure, is_cut, is_above, problem))
        return found

    def _evidence_of_all(self, seen: Seen, places: Sequence[int]) -> Evidence:
        return replace(self.evidence(seen, places), pictures=seen.pictured.cosines(places))

    def _listed(self, share: np.ndarray) -> list[int]:
        nodes: list[int] = best(share, min(self.choice.top_k, len(share))).tolist()
        return nodes

    def _categories(
        self, near: np.ndarray, listed: Sequence[int], belief: Belief
    ) -> tuple[list[Category], float, bool]:
        """Return one text's categories, the confidence in the first, and whether it is a parent.

        The likeliest is first, or a category above it.
        """
        paths, choice = self.taxonomy.paths, self.choice
        categories = [
            category_of(self.taxonomy, node, float(near[node])) for node in listed[: choice.top_k]
        ]
        likeliest = paths[listed[0]]
        path, sure = belief.depth(listed[0], likeliest, choice.min_confidence)
        is_above = len(path) < len(likeliest)
        if is_above:
            above = Category(
                category_id=self.taxonomy.id_of(path),
                path=SEPARATOR.join(path),
                score=categories[0].score,
            )
            categories = [above, *categories][: choice.top_k]
        return categories, sure, is_above


async def prepare(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    taxonomy: Taxonomy,
    choice: Choice,
    progress: Progress,
) -> Classifier:
    """Make what all texts need; with the default model its companion reads along.

    Raises:
        InvalidInput: the taxonomy has too many examples.
        SieError: what the worker answered; a companion that cannot be loaded is left out.
    """
    choice = with_examples_of(taxonomy, choice)
    readers = [await make_reader(client, store, model, taxonomy, choice.examples.texts, progress)]
    if model == "auto" and await _has_companion(client, readers[0].model):
        try:
            readers.append(
                await make_reader(
                    client, store, COMPANION, taxonomy, choice.examples.texts, progress
                )
            )
        except ModelLoadFailed as error:
            logger.warning("classifying without companion model=%s: %s", COMPANION, error)
    branches, index = await anyio.to_thread.run_sync(indexes, taxonomy)
    return Classifier(client, taxonomy, choice, readers, branches, index)


async def classify(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    *,
    choice: Choice,
    progress: Progress,
    pictures: PictureReader | None = None,
    images: Sequence[str] = (),
) -> Classification:
    """Find the likeliest categories of each text, all at once.

    Raises:
        SieError: as `prepare`, or no text could be encoded.
    """
    classifier = await prepare(client, store, model, taxonomy, choice, progress)
    classifier = replace(classifier, pictures=pictures)
    seen = await classifier.look(texts, progress, images=images)
    raise_if_all_failed(seen.failed, len(texts))
    classifier = await anyio.to_thread.run_sync(classifier.calibrated, seen)
    return await anyio.to_thread.run_sync(classifier.decide, seen)


async def _has_companion(client: EngineClient, model: str) -> bool:
    listed = await client.models()
    return model != COMPANION and any(card.name == COMPANION for card in listed.models)
