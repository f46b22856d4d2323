"""`list_models`, as an agent calls it."""

import pytest

from sie_mcp import wire
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio


async def test_a_model_is_a_short_line(toolbox: Toolbox) -> None:
    answer = await toolbox.call("list_models")
    assert answer["defaults"] == {
        "encode": "toy-embedder",
        "score": "toy-reranker",
        "extract": "toy-extractor",
    }
    assert answer["models"][0] == {
        "name": "toy-embedder",
        "does": ["encode"],
        "loaded": False,
        "size_mb": 12,
        "max_tokens": 50,
        "about": "A toy.",
    }


async def test_a_primitive_narrows_the_list(toolbox: Toolbox) -> None:
    answer = await toolbox.call("list_models", primitive="extract")
    assert [line["name"] for line in answer["models"]] == ["toy-extractor"]
    assert answer["models"][0]["labels"] == ["EMAIL", "PHONE", "NAME"]
    assert answer["defaults"] == {"extract": "toy-extractor"}


async def test_an_unknown_primitive_is_refused_with_the_known_ones(toolbox: Toolbox) -> None:
    text = await toolbox.error("list_models", primitive="rerank")
    assert "'encode', 'score' or 'extract'" in text


async def test_states_errors_and_many_labels_are_shown_shortly(toolbox: Toolbox) -> None:
    failed = wire.ModelError(
        code="X", message="no such file: " + "a" * 300, attempts=1, permanent=True
    )
    toolbox.worker.extra_cards = [
        wire.ModelCard(name="broken", state="failed", last_error=failed, outputs=["dense"]),
        wire.ModelCard(name="labels", labels=[f"L{n}" for n in range(50)]),
    ]
    broken, labels = (await toolbox.call("list_models"))["models"][-2:]
    assert broken["state"] == "failed" and broken["outputs"] == ["dense"]
    assert broken["about"].startswith("no such file") and len(broken["about"]) == 160
    assert len(labels["labels"]) == 40 and labels["more_labels"] == 10


async def test_a_long_list_is_cut_and_says_how_to_see_the_rest(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    toolbox.worker.extra_cards = [wire.ModelCard(name=f"org/model-{n}") for n in range(20)]
    answer = await toolbox.call("list_models")
    assert 0 < len(answer["models"]) == 23 - answer["omitted"] < 23
    assert answer["hint"] == "name a primitive to see fewer"
