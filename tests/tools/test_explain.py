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


async def test_a_row_of_a_classified_file_is_explained_with_its_examples(toolbox: Toolbox) -> None:
    long = "zork eight. " + "one of many words " * 20
    call = {"taxonomy": TREE, "examples": "seen.csv"}
    toolbox.write("seen.csv", f"text,category\n{long},Garden > Rakes\nelse,Kitchen\n")
    toolbox.write("shop.csv", f"text\nknives\n{long}\n")
    await toolbox.call("classify_taxonomy", path="shop.csv", output_path="out.csv", **call)
    explained = await toolbox.call("explain", path="out.csv", index=1, **call)
    (nearest, *_) = explained["examples"]
    assert nearest == {"text": long[:80], "path": "Garden > Rakes", "likeness": 1.0}
    assert explained["results"][0]["path"] == "Garden > Rakes"
    without = await toolbox.call("explain", path="out.csv", index=1, taxonomy=TREE)
    assert "examples" not in without
    text = await toolbox.error("explain", path="out.csv", index=2, taxonomy=TREE)
    assert text == "index: out.csv has no text 2; it has 2 rows"


@pytest.mark.parametrize(("text", "expected"), [(" ", "text is empty"), ("FAIL", "no memory")])
async def test_a_text_that_cannot_be_read_is_an_error(
    toolbox: Toolbox, text: str, expected: str
) -> None:
    assert expected in await toolbox.error("explain", text=text, taxonomy=TREE)


@pytest.mark.parametrize("given", [{}, {"text": "zork", "path": "out.csv"}])
async def test_there_is_one_text_to_explain(toolbox: Toolbox, given: dict[str, str]) -> None:
    said = await toolbox.error("explain", taxonomy=TREE, **given)
    assert said == "send one of text, and path with the index of a row"
