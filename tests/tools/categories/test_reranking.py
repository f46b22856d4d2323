"""A reranker's order decides among the likeliest categories, in a call and in a file."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sie_mcp import wire
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
TREE = [f"Kitchen > Forks {n}" for n in range(30)] + ["Garden > Rakes"]
CALL = {"texts": ["kitchen forks"], "taxonomy": TREE, "reranker": "toy-reranker"}


class Contrary(FakeWorker):
    """Finds what comes later in the list more relevant."""

    async def score(
        self, model: str, query: wire.Item, items: Sequence[wire.Item], **more: Any
    ) -> wire.ScoreResponse:
        answer = await super().score(model, query, items, **more)
        later = sorted(answer.scores, key=lambda one: -one.index)
        return answer.model_copy(update={"scores": later})


@pytest.fixture
def worker() -> FakeWorker:
    return Contrary()


def asked(worker: FakeWorker) -> list[list[str]]:
    return [texts for primitive, _, texts in worker.calls if primitive == "score"]


async def test_the_likeliest_20_are_in_the_rerankers_order(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", **CALL, top_k=4)
    (listed,) = asked(toolbox.worker)
    assert len(listed) == 20 and "Garden > Rakes" not in listed
    (entry,) = answer["results"]
    shown = [entry["path"], *(one["path"] for one in entry["alternatives"])]
    assert shown == listed[:-5:-1] and answer["reranker"] == "toy-reranker"


async def test_without_one_nothing_is_scored(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", **CALL | {"reranker": ""})
    assert not asked(toolbox.worker) and "reranker" not in answer


async def test_the_default_model_is_no_reranker_of_categories(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify_taxonomy", **CALL | {"reranker": "auto"})
    assert text.startswith("reranker: name a cross-encoder of list_models") and not asked(
        toolbox.worker
    )


async def test_every_row_of_a_file_is_reranked_once_and_may_stop_at_a_parent(
    toolbox: Toolbox,
) -> None:
    toolbox.write("shop.csv", "text\nkitchen forks\ngarden rakes\nkitchen forks\n")
    call = {"path": "shop.csv", "taxonomy": TREE, "reranker": "toy-reranker"}
    sure = await toolbox.call("classify_taxonomy", **call, output_path="a.jsonl")
    first, second = asked(toolbox.worker)
    assert sure["reranker"] == "toy-reranker"
    rows = [json.loads(line) for line in (toolbox.folder / "a.jsonl").read_text().splitlines()]
    assert [row["path"] for row in rows] == [first[-1], second[-1], first[-1]]
    least = max(row["confidence"] for row in rows[:1]) + 0.01
    again = {"output_path": "b.jsonl", "min_confidence": least}
    await toolbox.call("classify_taxonomy", **call, **again)
    row = json.loads((toolbox.folder / "b.jsonl").read_text().splitlines()[0])
    assert row["path"] == "Kitchen" and row["alternatives"][0]["path"] == first[-1]
