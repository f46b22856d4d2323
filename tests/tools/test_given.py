"""`extract_relations` with a model that is told where entities are: another finds them first."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from sie_mcp import wire
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
FINDER = wire.ModelCard(
    name="toy-finder", primitives=["extract"], outputs=["entities"], state="available"
)
LINKER = wire.ModelCard(
    name="toy-linker", primitives=["extract"], outputs=["relations"], state="loaded"
)


class Linker(FakeWorker):
    """Finds capitalised words, and links the first span of a text with the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.extra_cards = [LINKER, FINDER]

    async def extract(self, model: str, items: Sequence[wire.Item], params: Any = None, **_: Any):
        if params is None:
            return wire.ExtractResponse(model=model, items=[wire.ExtractedItem() for _ in items])
        answer = _found if model == FINDER.name else _linked
        return wire.ExtractResponse(model=model, items=[answer(item, params) for item in items])


def _found(item: wire.Item, params: wire.ExtractParams) -> wire.ExtractedItem:
    assert params.labels == ["person", "company"] and item.spans is None
    text = item.text or ""
    if "FAIL" in text:
        return wire.ExtractedItem(error=wire.ItemError(code="X", message="no memory"))
    entities = [
        wire.Entity(text=one[0], label="person", score=0.9, start=one.start(), end=one.end())
        for one in re.finditer(r"[A-Z]\w+", text)
    ]
    return wire.ExtractedItem(entities=entities)


def _linked(item: wire.Item, params: wire.ExtractParams) -> wire.ExtractedItem:
    structure = params.options.structure
    assert structure is not None and not structure.entities and item.spans is not None
    if len(item.spans) < 2:
        return wire.ExtractedItem()
    text, head, tail = item.text or "", item.spans[0], item.spans[-1]
    relation = wire.Relation(
        head=text[head.start : head.end],
        tail=text[tail.start : tail.end],
        relation=next(iter(structure.relations)),
        score=0.7,
    )
    return wire.ExtractedItem(relations=[relation])


@pytest.fixture
def worker() -> Linker:
    return Linker()


async def test_entities_are_found_by_another_model_and_then_linked(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "extract_relations",
        texts=["so Ann leads Acme", "nobody", "FAIL Ann Bob"],
        relations=["works for"],
        entities=["person", "company"],
        model="toy-linker",
    )
    (one,) = answer["results"]
    assert (one["index"], one["head"], one["tail"]) == (0, "Ann", "Acme")
    assert "no memory" in str(answer["failed"])


async def test_without_entities_the_error_says_what_to_add(toolbox: Toolbox) -> None:
    text = await toolbox.error(
        "extract_relations", texts=["a"], relations=["knows"], model="toy-linker"
    )
    assert "toy-linker links entities that you name: add entities" in text


async def test_who_names_no_model_is_not_given_one_that_needs_places(toolbox: Toolbox) -> None:
    text = await toolbox.error("extract_relations", texts=["a"], relations=["knows"])
    assert text.startswith("no model here gives relations")


async def test_without_a_model_that_finds_entities_nothing_is_linked(toolbox: Toolbox) -> None:
    toolbox.worker.extra_cards = [LINKER]
    text = await toolbox.error(
        "extract_relations", texts=["a"], relations="x", entities=["y"], model="toy-linker"
    )
    assert "no model here gives entities" in text
