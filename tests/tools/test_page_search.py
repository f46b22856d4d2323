"""`search_images` with a model that compares pages, over a worker that sees words."""

import pytest

from sie_mcp import wire
from sie_mcp.tools import page_scores
from sie_mcp.tools.image_files import DEFAULT_MODEL, PART_IMAGES
from tests.tools.conftest import Toolbox

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
MODEL = "pages/colpali"
QUERY = "profit of the year"


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    card = wire.ModelCard(
        name=MODEL,
        inputs=["text", "image"],
        outputs=["multivector", "muvera"],
        primitives=["encode", "score"],
        loaded=True,
    )
    toolbox.worker.extra_cards = [card]
    texts = {"a.png": "the profit of last year", "b.png": "a cat", "c.jpg": "profit of the year"}
    for name, text in texts.items():
        (toolbox.folder / name).write_bytes(text.encode())
    return toolbox


async def search(toolbox: Toolbox, **more: object) -> dict:
    return await toolbox.call("search_images", query=QUERY, model=MODEL, **more)


async def test_pages_are_scored_and_the_best_come_first(filled: Toolbox) -> None:
    answer = await search(filled)
    assert [one["path"] for one in answer["results"]] == ["c.jpg", "a.png", "b.png"]
    assert answer["model"] == MODEL and answer["num_images"] == 3 and "skipped" not in answer
    assert [kind for kind, _, _ in filled.worker.calls] == ["score"]


async def test_the_best_of_several_parts_are_put_together(filled: Toolbox) -> None:
    for number in range(PART_IMAGES):
        (filled.folder / f"b{number}.png").write_bytes(b"a dog")
    answer = await search(filled, top_k=2)
    assert [one["path"] for one in answer["results"]] == ["c.jpg", "a.png"]
    assert len(filled.worker.calls) == 2


async def test_pages_that_cannot_be_scored_are_named(filled: Toolbox) -> None:
    (filled.folder / "d.png").write_bytes(b"FAIL")
    (filled.folder / "e.png").write_bytes(b"x" * 40)
    filled.settings = {"max_image_bytes": 30}
    answer = await search(filled)
    assert len(answer["results"]) == 3 and answer["skipped"]["count"] == 2
    assert sorted(one[:6] for one in answer["skipped"]["first"]) == ["d.png:", "e.png:"]


async def test_what_such_a_model_cannot_do_is_said(filled: Toolbox, monkeypatch) -> None:
    error = await filled.error("search_images", like="a.png", model=MODEL)
    assert "give query, not like" in error
    monkeypatch.setattr(page_scores, "MAX_PAGES", 2)
    error = await filled.error("search_images", query=QUERY, model=MODEL)
    assert "3 pictures" in error and "at most 2" in error


async def test_such_a_model_is_never_taken_unasked(filled: Toolbox) -> None:
    answer = await filled.call("search_images", query=QUERY)
    assert answer["model"] == DEFAULT_MODEL
