"""`detect_objects` and `describe_image`, as an agent calls them, over a worker that sees words."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sie_mcp import wire
from sie_mcp.wire_images import DetectedObject
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker
from tests.tools.test_images import PICTURES, fill

pytestmark = pytest.mark.anyio
CARDS = {
    "toy-finder": wire.ModelCard(
        name="toy-finder",
        inputs=["image"],
        outputs=["objects"],
        primitives=["extract"],
        state="loaded",
    ),
    "toy-writer": wire.ModelCard(
        name="toy-writer",
        inputs=["image"],
        outputs=["text"],
        primitives=["extract"],
        state="loaded",
    ),
}


class Seer(FakeWorker):
    """Finds each label that a picture's bytes hold, and reads the bytes out."""

    def __init__(self) -> None:
        super().__init__()
        self.extra_cards = list(CARDS.values())
        self.asked: list[wire.ExtractParams] = []

    async def model(self, name: str) -> wire.ModelCard:
        return CARDS[name] if name in CARDS else await super().model(name)

    async def extract(self, model: str, items: Sequence[wire.Item], params: Any = None, **_: Any):
        assert params is not None
        self.asked.append(params)
        return wire.ExtractResponse(model=model, items=[self._see(one, params) for one in items])

    def _see(self, item: wire.Item, params: wire.ExtractParams) -> wire.ExtractedItem:
        seen = item.images[0].data.decode()
        if seen == "BROKEN":
            error = wire.ItemError(code="INVALID_IMAGE", message="the image is broken or cut off")
            return wire.ExtractedItem(error=error)
        if params.labels is None:
            return wire.ExtractedItem(text=seen, truncated=len(seen) > 13)
        found = [one for one in params.labels if one in seen]
        objects = [DetectedObject(label=one, score=0.51234, bbox=[1.4, 2, 3, 4]) for one in found]
        return wire.ExtractedItem(objects=objects)


@pytest.fixture
def worker() -> Seer:
    return Seer()


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(toolbox, PICTURES)
    return toolbox


async def test_things_are_counted_and_placed(filled: Toolbox) -> None:
    answer = await filled.call("detect_objects", labels=["shoe", "blue", "hat"], top_k=7)
    assert answer["counts"] == {"shoe": 2, "blue": 1} and answer["num_images"] == 3
    assert answer["images_with"] == {"shoe": 2, "blue": 1} and answer["model"] == "toy-finder"
    first = next(one for one in answer["results"] if one["path"] == "shoes/blue.PNG")
    assert first["objects"][0] == {"label": "shoe", "score": 0.5123, "box": [1, 2, 3, 4]}
    assert {one["path"] for one in answer["results"]} == {"shoes/red.jpg", "shoes/blue.PNG"}
    assert filled.worker.asked[0].options.top_k == 7


async def test_a_row_a_thing_goes_to_a_file(filled: Toolbox) -> None:
    fill(filled, {"bad.jpg": "BROKEN"})
    answer = await filled.call("detect_objects", labels="shoe", output_path="out.jsonl")
    lines = (filled.folder / "out.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 3 and "broken" in rows[-1]["error"]
    assert (rows[0]["label"], rows[0]["left"], rows[0]["bottom"]) == ("shoe", 1, 4)
    assert answer["failed"] == {"count": 1, "first": ["bad.jpg: the image is broken or cut off"]}


async def test_pictures_are_described_and_what_goes_on_says_so(filled: Toolbox) -> None:
    answer = await filled.call("describe_image", ask="<OCR>", max_tokens=9)
    texts = {one["path"]: (one["text"], one.get("truncated")) for one in answer["results"]}
    assert texts["shoes/blue.PNG"] == ("a blue shoe", None)
    assert texts["bags/one.webp"] == ("a leather bag", None)
    assert texts["shoes/red.jpg"][0] == PICTURES["shoes/red.jpg"]
    params = filled.worker.asked[0]
    assert (params.instruction, params.options.max_tokens) == ("<OCR>", 9)


async def test_descriptions_go_to_a_file(filled: Toolbox) -> None:
    fill(filled, {"long.jpg": "a picture of very many things"})
    await filled.call("describe_image", output_path="out.jsonl")
    lines = (filled.folder / "out.jsonl").read_text().splitlines()
    rows = {row["path"]: row for row in map(json.loads, lines)}
    assert len(rows) == 4 and rows["long.jpg"]["truncated"] == "yes"


@pytest.mark.parametrize(
    ("tool", "arguments", "other", "wanted"),
    [
        ("detect_objects", {"labels": ["x"]}, "toy-writer", "not objects; name google/owlv2"),
        ("describe_image", {}, "toy-finder", "not text; name Salesforce/blip"),
    ],
)
async def test_a_model_that_cannot_is_refused_with_one_that_can(
    filled: Toolbox, tool: str, arguments: dict[str, Any], other: str, wanted: str
) -> None:
    assert wanted in await filled.error(tool, model=other, **arguments)
    filled.worker.extra_cards = []
    assert "no model here gives" in await filled.error(tool, **arguments)


async def test_too_many_pictures_are_refused(filled: Toolbox, monkeypatch) -> None:
    monkeypatch.setattr("sie_mcp.tools.detect_objects.MAX_IMAGES", 2)
    text = await filled.error("detect_objects", labels=["shoe"])
    assert "3 pictures, the limit is 2" in text


async def test_what_does_not_fit_is_counted_and_kept(filled: Toolbox) -> None:
    many = {f"many/{number}.jpg": "a shoe " + "x" * 300 for number in range(200)}
    fill(filled, many)
    answer = await filled.call("describe_image", paths=["many"])
    assert answer["omitted"] and "output_path" in answer["hint"]
    assert len(answer["results"]) + answer["omitted"] == 200
