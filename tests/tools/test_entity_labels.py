"""Labels that the default does not know: another model looks for them, or the agent hears why."""

import pytest

from sie_mcp import wire
from sie_mcp.errors import DownloadFailed, ModelNotFound
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TEXT = "Anna wrote to bob@example.com."
ANY = "toy-finder-of-anything"


@pytest.fixture
def anything(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> Toolbox:
    """A worker that also has a model for labels of the caller's own."""
    models = toolbox.worker.models

    async def with_another() -> wire.ModelList:
        listing = await models()
        return listing.model_copy(update={"defaults": {**listing.defaults, "extract_labels": ANY}})

    monkeypatch.setattr(toolbox.worker, "models", with_another)
    return toolbox


def _lose(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    extract = toolbox.worker.extract

    async def extract_without(model, items, params=None, **more):
        if model == ANY:
            raise DownloadFailed("it is not on disk and offline is set")
        return await extract(model, items, params, **more)

    monkeypatch.setattr(toolbox.worker, "extract", extract_without)


async def test_labels_of_one_s_own_go_to_a_model_that_takes_any(anything: Toolbox) -> None:
    answer = await anything.call("extract_entities", texts=[TEXT], labels=["NAME", "company"])
    assert (answer["model"], answer["labels"]) == (ANY, ["NAME", "company"])
    assert [call[1] for call in anything.worker.calls] == [ANY]
    assert "labels_left_out" not in answer and "reason" not in answer


async def test_labels_that_the_default_knows_stay_with_it(anything: Toolbox) -> None:
    answer = await anything.call("extract_entities", texts=[TEXT], labels=["email", "Name"])
    assert answer["labels"] == ["EMAIL", "NAME"]
    assert ANY not in [call[1] for call in anything.worker.calls]
    assert (await anything.call("extract_entities", texts=[TEXT]))["counts"] == answer["counts"]


async def test_what_the_default_knows_is_found_where_the_other_cannot_be_had(
    anything: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose(anything, monkeypatch)
    answer = await anything.call("extract_entities", texts=[TEXT], labels=["company", "name"])
    assert (answer["labels"], answer["labels_left_out"]) == (["NAME"], ["company"])
    assert answer["counts"] == {"NAME": 1}
    assert answer["reason"] == (
        f"{ANY}, which finds any label, cannot be had: it is not on disk and offline is set"
    )


async def test_where_no_label_is_known_the_error_says_which_are(
    anything: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose(anything, monkeypatch)
    text = await anything.error("extract_entities", texts=[TEXT], labels=["company"])
    assert "cannot be had: it is not on disk and offline is set" in text
    assert text.endswith("Without it toy-extractor finds only EMAIL, PHONE, NAME")


async def test_labels_are_held_against_a_model_that_nobody_has_used_yet(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, name = toolbox.worker.model, "acme/new-finder"

    async def known_once_used(asked: str) -> wire.ModelCard:
        if asked != name:
            return await model(asked)
        if name not in [call[1] for call in toolbox.worker.calls]:
            raise ModelNotFound(f"no model {asked!r}")
        return wire.ModelCard(name=name, primitives=["extract"], labels=["ORG"], state="loaded")

    monkeypatch.setattr(toolbox.worker, "model", known_once_used)
    arguments = {"texts": [TEXT], "model": name}
    text = await toolbox.error("extract_entities", labels=["company"], **arguments)
    assert "company" in text and "ORG" in text
