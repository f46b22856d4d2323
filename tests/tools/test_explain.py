"""Why a text goes into its category: cosines, shared words, and confidence level by level."""

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TREE = ["Kitchen", "Kitchen > Table Forks", "Kitchen > Knives", "Garden", "Garden > Rakes"]


async def test_the_reasons_agree_with_the_classification(toolbox: Toolbox) -> None:
    text = "table forks. made for a kitchen"
    explained = await toolbox.call("explain", text=text, taxonomy=TREE, top_k=2)
    answer = await toolbox.call("classify_taxonomy", texts=[text], taxonomy=TREE, top_k=2)
    (entry,), (first, second) = answer["results"], explained["results"]
    assert first["path"] == entry["path"] == "Kitchen > Table Forks"
    assert first["confidence"] == entry["confidence"] > second["confidence"]
    assert first["cosines"] == [entry["score"]]
    assert second["path"] == entry["alternatives"][0]["path"]
    assert explained["head"] == "table forks"
    assert first["shared_words"] == ["fork", "table"] and "shared_words" not in second


async def test_confidence_falls_with_each_level(toolbox: Toolbox) -> None:
    explained = await toolbox.call("explain", text="kitchen", taxonomy=TREE, top_k=9)
    assert len(explained["results"]) == 5 and "head" not in explained
    for reason in explained["results"]:
        levels = reason["levels"]
        assert len(levels) == len(reason["path"].split(" > "))
        assert levels == sorted(levels, reverse=True) and reason["confidence"] <= levels[-1]


@pytest.mark.parametrize(("text", "expected"), [("", "text is empty"), ("FAIL", "no memory")])
async def test_a_text_that_cannot_be_read_is_an_error(
    toolbox: Toolbox, text: str, expected: str
) -> None:
    assert expected in await toolbox.error("explain", text=text, taxonomy=TREE)
