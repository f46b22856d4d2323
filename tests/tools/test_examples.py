"""Labelled examples: they decide what names cannot, and wrong ones are refused."""

import json

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TREE = ["Kitchen", "Kitchen > Forks", "Garden", "Garden > Rakes"]


async def test_examples_teach_what_the_names_do_not_say(toolbox: Toolbox) -> None:
    call = {"texts": ["forks model zork nine"], "taxonomy": TREE}
    before = await toolbox.call("classify_taxonomy", **call)
    assert before["results"][0]["path"] == "Kitchen > Forks"
    rows = [
        {"text": "model zork eight", "category": "garden > rakes"},
        {"text": "something else", "category": "Kitchen"},
    ]
    toolbox.write("seen.jsonl", "\n".join(map(json.dumps, rows)))
    after = await toolbox.call("classify_taxonomy", **call, examples="seen.jsonl")
    assert after["results"][0]["path"] == "Garden > Rakes"


async def test_a_category_may_be_an_id(toolbox: Toolbox) -> None:
    toolbox.write("tree.csv", "id,path\n7,Forks\n8,Rakes\n")
    toolbox.write("seen.csv", "text,category\nzork,8\n")
    answer = await toolbox.call(
        "classify_taxonomy", texts=["zork"], taxonomy="tree.csv", examples="seen.csv"
    )
    assert answer["results"][0]["category_id"] == "8"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "text,category\nzork,Cellar\n",
            "row 0, column `category`: 'Cellar' is no category of given",
        ),
        ("text,label\nzork,Garden\n", "category"),
        ("text,category\n,Garden\n", "row 0 is empty"),
        ("text,category\n" + "a,Garden\n" * 2_001, "has 2,001 rows; the limit is 2,000"),
    ],
)
async def test_examples_that_cannot_be_used_are_refused(
    toolbox: Toolbox, content: str, expected: str
) -> None:
    toolbox.write("seen.csv", content)
    text = await toolbox.error(
        "classify_taxonomy", texts=["zork"], taxonomy=TREE, examples="seen.csv"
    )
    assert expected in text and len(text) < 400
