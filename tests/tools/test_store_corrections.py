"""Corrections of a classified file become examples: added, changed, and what cannot be kept."""

import csv
from typing import Any

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TREE = ["Kitchen", "Kitchen > Forks", "Garden", "Garden > Rakes"]
TEXTS = ["zork, the better one", "kitchen forks", "zork again" + " and again" * 200]


async def classified(toolbox: Toolbox, name: str = "out.jsonl") -> str:
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE, output_path=name)
    return name


async def store(toolbox: Toolbox, *corrections: tuple[int, str], **more: Any) -> dict[str, Any]:
    given = [{"index": index, "category": category} for index, category in corrections]
    call = {"path": "out.jsonl", "taxonomy": TREE, "examples": "seen.csv", **more}
    return await toolbox.call("store_corrections", corrections=given, **call)


def kept(toolbox: Toolbox) -> list[dict[str, str]]:
    with (toolbox.folder / "seen.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
async def test_a_corrected_row_is_right_the_next_time(toolbox: Toolbox, name: str) -> None:
    await classified(toolbox, name)
    answer = await store(toolbox, (0, "garden > rakes"), (1, ""), path=name)
    assert answer == {"examples": str(toolbox.folder / "seen.csv"), "added": 2, "count": 2}
    assert kept(toolbox) == [
        {"text": TEXTS[0], "category": "Garden > Rakes"},
        {"text": TEXTS[1], "category": "Kitchen > Forks"},
    ]
    again = await toolbox.call(
        "classify_taxonomy", texts=TEXTS[:1], taxonomy=TREE, examples="seen.csv"
    )
    assert again["results"][0]["path"] == "Garden > Rakes"


async def test_the_same_call_again_changes_nothing_and_another_category_counts(
    toolbox: Toolbox,
) -> None:
    await classified(toolbox)
    await store(toolbox, (0, "Garden"))
    assert (await store(toolbox, (0, "Garden")))["added"] == 0
    assert len(kept(toolbox)) == 1
    changed = await store(toolbox, (0, "Garden > Rakes"), (2, "Kitchen"))
    assert (changed["added"], changed["changed"], changed["count"]) == (1, 1, 2)
    # Nothing is overwritten: the last row of a text is what counts.
    assert [row["category"] for row in kept(toolbox)] == ["Garden", "Garden > Rakes", "Kitchen"]
    answer = await toolbox.call(
        "classify_taxonomy", texts=TEXTS[:1], taxonomy=TREE, examples="seen.csv"
    )
    assert answer["results"][0]["path"] == "Garden > Rakes"


async def test_rows_are_added_below_a_line_that_has_no_end(toolbox: Toolbox) -> None:
    await classified(toolbox)
    toolbox.write("seen.csv", 'text,category\n"a, b",Garden')
    assert (await store(toolbox, (1, "")))["count"] == 2
    assert [row["text"] for row in kept(toolbox)] == ["a, b", TEXTS[1]]


async def test_a_long_text_is_kept_as_far_as_models_read(toolbox: Toolbox) -> None:
    await classified(toolbox)
    await store(toolbox, (2, "Kitchen"))
    assert kept(toolbox)[0]["text"] == TEXTS[2][:1_000]


@pytest.mark.parametrize(
    ("corrections", "before", "expected"),
    [
        ([(7, "Garden")], "", "corrections[0]: row 7 is not there; out.jsonl has 3"),
        (
            [(0, "Cellar")],
            "",
            "corrections[0], row 0: 'Cellar' is no category of given; give an id, or a path like",
        ),
        (
            [(0, "Garden"), (1, "garden > rake")],
            "",
            "corrections[1], row 1: 'garden > rake' is no category of given; did you mean "
            "'Garden > Rakes'?",
        ),
        (
            [(0, "Garden"), (0, "Kitchen")],
            "",
            "corrections[1]: row 0 has the text of row 0, but another category: 'Kitchen', not "
            "'Garden'; send one of them",
        ),
        ([(0, "Garden")], "a,b\n1,2\n", "seen.csv has other columns than text,category; name a"),
        ([(0, "Garden")], "text,category\na\n", "seen.csv has rows of another length; mend it"),
        (
            [(0, "Garden")],
            "text,category\n" + "".join(f"{n},Garden\n" for n in range(2_000)),
            "seen.csv would have 2,001 rows; the limit is 2,000; keep a few of each category",
        ),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_the_file_is_as_it_was(
    toolbox: Toolbox, corrections: list[tuple[int, str]], before: str, expected: str
) -> None:
    await classified(toolbox)
    if before:
        toolbox.write("seen.csv", before)
    given = [{"index": index, "category": category} for index, category in corrections]
    call = {"path": "out.jsonl", "taxonomy": TREE, "examples": "seen.csv"}
    assert expected in await toolbox.error("store_corrections", corrections=given, **call)
    file = toolbox.folder / "seen.csv"
    assert (file.read_text() if file.exists() else "") == before


async def test_a_rows_own_category_of_another_taxonomy_says_which_argument_is_wrong(
    toolbox: Toolbox,
) -> None:
    await classified(toolbox)
    message = await toolbox.error(
        "store_corrections",
        path="out.jsonl",
        corrections=[{"index": 1}],
        examples="seen.csv",
        taxonomy=["Other"],
    )
    assert message.startswith("corrections[0], row 1: its own category 'Kitchen > Forks' is none")
    assert "the `taxonomy` that out.jsonl was classified into" in message


async def test_the_same_category_twice_for_a_row_is_one_example(toolbox: Toolbox) -> None:
    await classified(toolbox)
    assert (await store(toolbox, (0, "Garden"), (0, "garden")))["added"] == 1
