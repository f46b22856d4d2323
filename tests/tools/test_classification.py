"""How sure a category is, and a second model that reads along."""

import logging
from collections.abc import Sequence

import pytest

from sie_mcp import wire
from sie_mcp.client import Progress
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.tools import classification, name_indexes
from sie_mcp.tools.categories.calibration import MIN_TEXTS
from sie_mcp.tools.classification import COMPANION
from sie_mcp.tools.words import WordIndex
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
TREE = ["Kitchen", "Kitchen > Forks", "Kitchen > Knives", "Garden", "Garden > Rakes"]


async def test_a_clear_text_is_more_certain_than_an_unclear_one(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify_taxonomy", texts=["kitchen forks", "something"], taxonomy=TREE
    )
    clear, unclear = (entry["confidence"] for entry in answer["results"])
    assert 0 < unclear < clear <= 1


async def test_an_unsure_text_goes_to_the_branch_that_is_sure_enough(toolbox: Toolbox) -> None:
    call = {"texts": ["kitchen forks knives"], "taxonomy": TREE, "top_k": 2}
    (sure,) = (await toolbox.call("classify_taxonomy", **call))["results"]
    assert sure["path"] in TREE[1:3]
    asked = sure["confidence"] + 0.02
    (entry,) = (await toolbox.call("classify_taxonomy", **call, min_confidence=asked))["results"]
    assert entry["path"] == "Kitchen" and entry["confidence"] >= asked
    assert entry["alternatives"][0]["path"] == sure["path"] and "unsure" not in entry


async def test_a_text_that_no_branch_is_sure_of_is_unsure(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify_taxonomy", texts=["something"], taxonomy=TREE, min_confidence=0.99
    )
    assert answer["results"][0]["unsure"] is True and answer["num_unsure"] == 1


class TwoModels(FakeWorker):
    """Has the companion too, which may fail to load."""

    is_broken = False

    async def models(self) -> wire.ModelList:
        listed = await super().models()
        card = listed.models[0].model_copy(update={"name": COMPANION})
        return listed.model_copy(update={"models": [*listed.models, card]})

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        if model == COMPANION and self.is_broken:
            raise ModelLoadFailed("no such file")
        return await super().encode(model, items, params, progress=progress)


async def test_the_companion_reads_along_with_the_default_model_only(toolbox: Toolbox) -> None:
    toolbox.worker = TwoModels()
    call = {"texts": ["forks"], "taxonomy": TREE}
    answer = await toolbox.call("classify_taxonomy", **call)
    assert (answer["model"], answer["companion"]) == ("toy-embedder", COMPANION)
    named = await toolbox.call("classify_taxonomy", **call, model="toy-embedder")
    assert "companion" not in named
    assert named["results"][0]["path"] == answer["results"][0]["path"] == "Kitchen > Forks"


async def test_a_companion_that_cannot_be_loaded_is_left_out_and_logged(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    worker = toolbox.worker = TwoModels()
    worker.is_broken = True
    with caplog.at_level(logging.WARNING):
        answer = await toolbox.call("classify_taxonomy", texts=["forks"], taxonomy=TREE)
    assert "companion" not in answer and len(answer["results"]) == 1
    assert "without companion" in caplog.text


@pytest.mark.parametrize(("limit", "is_kept"), [(100, True), (1, False)])
async def test_what_is_made_of_a_taxonomy_s_names_is_kept_for_the_next_call(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, limit: int, is_kept: bool
) -> None:
    made: list[int] = []

    class Counted(WordIndex):
        def __init__(self, names: Sequence[str]) -> None:
            made.append(len(names))
            super().__init__(names)

    monkeypatch.setattr(name_indexes, "WordIndex", Counted)
    monkeypatch.setattr(name_indexes, "MAX_KEPT_NODES", limit)
    name_indexes._kept.cache_clear()
    call = {"texts": ["kitchen forks"], "taxonomy": TREE}
    first = await toolbox.call("classify_taxonomy", **call)
    assert await toolbox.call("classify_taxonomy", **call) == first
    assert len(made) == (1 if is_kept else 2)
    other = {"texts": ["kitchen forks"], "taxonomy": [*TREE, "Garden > Forks of the kitchen"]}
    answer = await toolbox.call("classify_taxonomy", **other)
    assert answer["num_categories"] == 6 and made[-1] == 6


LABELS = ["Forks", "Rakes"]
BETWEEN = "forks " * 6 + "rakes " * 5


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the worker's model be one whose cosines were measured."""
    monkeypatch.setattr(classification, "MEASURED", ("toy-embedder",))


async def test_of_two_labels_a_text_between_them_is_less_sure(
    toolbox: Toolbox, measured: None
) -> None:
    texts = ["forks", BETWEEN]
    answer = await toolbox.call("classify_taxonomy", texts=texts, taxonomy=LABELS)
    clear, between = (entry["confidence"] for entry in answer["results"])
    assert [entry["path"] for entry in answer["results"]] == ["Forks", "Forks"]
    assert 0.5 < between < clear - 0.01


async def test_confidences_of_labels_add_up_to_one_and_explain_gives_the_same(
    toolbox: Toolbox, measured: None
) -> None:
    text = BETWEEN
    answer = await toolbox.call("classify_taxonomy", texts=[text], taxonomy=LABELS)
    reasons = (await toolbox.call("explain", text=text, taxonomy=LABELS))["results"]
    found = [one["confidence"] for one in reasons]
    assert sum(found) == pytest.approx(1, abs=2e-3)
    assert found[0] == pytest.approx(answer["results"][0]["confidence"], abs=1e-3)


async def test_a_label_is_as_sure_alone_as_among_many_texts(
    toolbox: Toolbox, measured: None
) -> None:
    toolbox.worker = TwoModels()
    texts = [BETWEEN, *(f"forks {one}" for one in range(2 * MIN_TEXTS))]
    alone, many = [
        (await toolbox.call("classify_taxonomy", texts=some, taxonomy=LABELS))["results"][0]
        for some in (texts[:1], texts)
    ]
    assert alone["confidence"] == many["confidence"]


@pytest.mark.parametrize(
    ("taxonomy", "examples"), [(TREE, False), (LABELS, True)], ids=["tree", "examples"]
)
async def test_what_has_more_than_labels_goes_by_its_curve(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, taxonomy: list[str], examples: bool
) -> None:
    more = {}
    if examples:
        (toolbox.folder / "seen.csv").write_text("text,category\na fork,Forks\n")
        more = {"examples": "seen.csv"}
    call = {"texts": [BETWEEN], "taxonomy": taxonomy, **more}
    before = await toolbox.call("classify_taxonomy", **call)
    monkeypatch.setattr(classification, "MEASURED", ("toy-embedder",))
    assert await toolbox.call("classify_taxonomy", **call) == before
