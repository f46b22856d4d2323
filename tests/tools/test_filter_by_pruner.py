"""`filter_context` with a model that prunes: it reads texts whole and judges their sentences."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sie_mcp import wire
from sie_mcp.client import Progress
from sie_mcp.sentences import split_sentences
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker
from tests.tools.test_filter_context import FACT, NOISE, QUERY, document

pytestmark = pytest.mark.anyio


class Pruner(FakeWorker):
    """Keeps what speaks of a door, best where it is violet; a text with "FAIL" fails."""

    async def model(self, name: str) -> wire.ModelCard:
        if name != "pruner":
            return await super().model(name)
        return wire.ModelCard(
            name=name, primitives=["extract", "score"], labels=["highlight", "kept", "pruned"]
        )

    async def extract(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.ExtractParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.ExtractResponse:
        assert params is not None
        assert (params.instruction, params.options.unit) == (QUERY, "sentence")
        texts = await self._heard("extract", model, items, progress)
        return wire.ExtractResponse(model=model, items=[self._judged(text) for text in texts])

    def _judged(self, text: str) -> wire.ExtractedItem:
        if "FAIL" in text:
            error = wire.ItemError(code="RESOURCE_EXHAUSTED", message="no memory for this item")
            return wire.ExtractedItem(error=error)
        entities = []
        for span in split_sentences(text):
            piece = text[span.start : span.end]
            label, score = ("kept", 0.6) if "door" in piece else ("pruned", 0.1)
            if "violet" in piece:
                label, score = "highlight", 0.9
            entities.append(
                wire.Entity(text=piece, label=label, score=score, start=span.start, end=span.end)
            )
        return wire.ExtractedItem(entities=entities)


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    folder = tmp_path / "allowed"
    folder.mkdir()
    return Toolbox(Pruner(), folder, tmp_path / "cache")


async def test_what_a_pruner_keeps_is_kept_and_nothing_else(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "filter_context", query=QUERY, text=document(30), max_tokens=300, model="pruner"
    )
    assert [entry["text"] for entry in answer["results"]] == [FACT]
    assert answer["model"] == "pruner"
    assert [call[0] for call in toolbox.worker.calls] == ["extract"]


async def test_the_best_comes_first_where_it_keeps_too_much(toolbox: Toolbox) -> None:
    doors = " ".join(f"Door number {n} of the long corridor is closed." for n in range(40))
    text = f"{doors} {FACT} {NOISE[0]}"
    answer = await toolbox.call(
        "filter_context", query=QUERY, text=text, max_tokens=60, model="pruner"
    )
    assert FACT in answer["results"][0]["text"]
    assert NOISE[0] not in answer["results"][0]["text"]
    assert answer["kept_tokens"] <= 60


async def test_a_text_it_cannot_read_is_reported(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "filter_context",
        query=QUERY,
        texts=[f"FAIL. {document(3)}", document(5)],
        max_tokens=100,
        model="pruner",
    )
    assert {entry["index"] for entry in answer["results"]} == {1}
    assert {one["index"] for one in answer["failed"]["first"]} == {0}
