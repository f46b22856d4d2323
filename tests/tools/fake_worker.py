"""A small real engine for tests: bags of hashed words, no model, the same answer each time."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from sie_mcp import wire
from sie_mcp.client import Progress
from sie_mcp.errors import ModelNotFound

DIMS = 256
MAX_TOKENS = 50
PATTERNS = {
    "EMAIL": r"[\w.]+@[\w.]+\.\w+",
    "PHONE": r"\+?\d[\d -]{5,}\d",
    "NAME": r"\b(?:Anna|Bob|Chen)\b",
}


class FakeWorker:
    """Answers like a worker. A text that holds "FAIL" has an error and no result.

    Attributes:
        calls: What was asked: (primitive, model, texts).
        roles: `is_query` of each call of encode.
        seed: Another seed is another model of the same name.
        loading: How many times a call reports that the model loads.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, list[str]]] = []
        self.roles: list[bool | None] = []
        self.seed = ""
        self.loading = 0
        self.labels: list[str] | None = list(PATTERNS)
        self.extra_cards: list[wire.ModelCard] = []

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        texts = await self._heard("encode", model, items, progress)
        self.roles.append(params.options.is_query if params else None)
        return wire.EncodeResponse(
            model=_resolved(model, "toy-embedder"),
            items=[self._encoded(text) for text in texts],
        )

    async def score(
        self,
        model: str,
        query: wire.Item,
        items: Sequence[wire.Item],
        *,
        instruction: str | None = None,
        options: wire.ScoreOptions | None = None,
        progress: Progress | None = None,
    ) -> wire.ScoreResponse:
        texts = await self._heard("score", model, items, progress)
        wanted = self.vector(query.text or "")
        scores = [None if "FAIL" in text else float(self.vector(text) @ wanted) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: (scores[i] is None, -(scores[i] or 0.0), i))
        return wire.ScoreResponse(
            model=_resolved(model, "toy-reranker"),
            score_type="similarity",
            scores=[
                wire.Score(
                    item_id=str(index),
                    index=index,
                    score=scores[index],
                    rank=rank,
                    truncated=_num_tokens(texts[index]) > MAX_TOKENS,
                    error=_error(texts[index]),
                )
                for rank, index in enumerate(order)
            ],
        )

    async def extract(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.ExtractParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.ExtractResponse:
        texts = await self._heard("extract", model, items, progress)
        if items[0].images:
            assert params is not None
            return wire.ExtractResponse(
                model=_resolved(model, "toy-seer"),
                items=[self._seen(text, params) for text in texts],
            )
        labels = params.labels if params and params.labels else list(PATTERNS)
        return wire.ExtractResponse(
            model=_resolved(model, "toy-extractor"),
            items=[_extracted(text, labels) for text in texts],
        )

    async def models(self) -> wire.ModelList:
        cards = [
            await self.model(name) for name in ("toy-embedder", "toy-reranker", "toy-extractor")
        ]
        return wire.ModelList(
            models=cards + self.extra_cards,
            defaults={card.primitives[0]: card.name for card in cards},
        )

    async def model(self, name: str) -> wire.ModelCard:
        primitives = {"toy-embedder": "encode", "toy-reranker": "score", "toy-extractor": "extract"}
        for card in self.extra_cards:
            if card.name == name:
                return card
        if name not in primitives:
            raise ModelNotFound(f"no model {name!r}; known: {', '.join(primitives)}")
        return wire.ModelCard(
            name=name,
            primitives=[primitives[name]],
            labels=self.labels if name == "toy-extractor" else None,
            size_bytes=12_400_000,
            max_sequence_length=MAX_TOKENS,
            description="A toy.",
        )

    def vector(self, text: str) -> np.ndarray:
        """A unit vector of a text's words, `(DIMS,)`."""
        values = np.zeros(DIMS, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.sha256(f"{self.seed}{word}".encode()).digest()
            values[int.from_bytes(digest[:2], "big") % DIMS] += 1.0
        norm = float(np.linalg.norm(values))
        return values / norm if norm else values

    def _encoded(self, text: str) -> wire.EncodedItem:
        if error := _error(text):
            return wire.EncodedItem(error=error)
        return wire.EncodedItem(
            num_tokens=_num_tokens(text),
            truncated=_num_tokens(text) > MAX_TOKENS,
            dense=wire.Dense(dims=DIMS, values=self.vector(text)),
        )

    def _seen(self, text: str, params: wire.ExtractParams) -> wire.ExtractedItem:
        """Label a picture by the words in it."""
        if error := _error(text):
            return wire.ExtractedItem(error=error)
        least = params.options.threshold or 0.0
        scores = [(label, 0.91234 if label in text else 0.1) for label in params.labels or []]
        found = [wire.Classification(label=a, score=b) for a, b in scores if b >= least]
        found.sort(key=lambda one: -one.score)
        return wire.ExtractedItem(classifications=found[: params.options.top_k])

    async def _heard(
        self, primitive: str, model: str, items: Sequence[wire.Item], progress: Progress | None
    ) -> list[str]:
        texts = [_text(item) for item in items]
        self.calls.append((primitive, model, texts))
        for second in range(self.loading if progress else 0):
            assert progress is not None
            await progress(0, 1, f"loading {model} ({second} s)")
        if progress:
            await progress(len(texts), len(texts), f"{primitive} {model}")
        return texts


def _resolved(model: str, default: str) -> str:
    return default if model == "auto" else model


def _text(item: wire.Item) -> str:
    """Return a text; a picture's file holds in words what it shows."""
    if item.images:
        return item.images[0].data.decode()
    return item.text or ""


def _num_tokens(text: str) -> int:
    return len(text.split())


def _error(text: str) -> wire.ItemError | None:
    if "BROKEN" in text:
        return wire.ItemError(code="INVALID_IMAGE", message="the image is broken or cut off")
    if "FAIL" in text:
        return wire.ItemError(code="RESOURCE_EXHAUSTED", message="no memory for this item")
    return None


def _extracted(text: str, labels: list[str]) -> wire.ExtractedItem:
    if error := _error(text):
        return wire.ExtractedItem(error=error)
    entities = [
        wire.Entity(text=m[0], label=label, score=0.98765, start=m.start(), end=m.end())
        for label in labels
        for m in re.finditer(PATTERNS.get(label, "$^"), text)
    ]
    is_long = "ENDLESS" in text
    if "MOOD" in text:
        return wire.ExtractedItem(classifications=[wire.Classification(label="sad", score=0.9)])
    return wire.ExtractedItem(
        entities=entities, truncated=is_long, read_to=len(text) // 2 if is_long else None
    )
