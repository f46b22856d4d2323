"""Least sure rows of a classified file, page by page, and what is no such file."""

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TREE = ["Kitchen", "Kitchen > Forks", "Garden", "Garden > Rakes"]
TEXTS = ["kitchen forks", "something", "garden", "rakes or forks", "forks"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
async def test_every_row_comes_once_least_sure_first(toolbox: Toolbox, name: str) -> None:
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE, output_path=name)
    seen: list[dict[str, object]] = []
    offset: int | None = 0
    for _ in range(5):
        assert offset is not None
        page = await toolbox.call("review_uncertain", path=name, offset=offset, limit=2)
        assert page["count"] == page["num_below"] == 5 and len(page["results"]) <= 2
        seen += page["results"]
        offset = page.get("next_offset")
        if offset is None:
            break
    assert sorted(str(row["text"]) for row in seen) == sorted(TEXTS)
    sure = [row["confidence"] for row in seen]
    assert sure == sorted(sure, key=float) and seen[0]["text"] == "something"
    assert all(len(row["alternatives"]) == 2 for row in seen)  # type: ignore[arg-type]


async def test_surer_rows_can_be_left_out(toolbox: Toolbox) -> None:
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE, output_path="out.jsonl")
    every = (await toolbox.call("review_uncertain", path="out.jsonl"))["results"]
    limit = every[1]["confidence"]
    some = await toolbox.call("review_uncertain", path="out.jsonl", max_confidence=limit)
    assert some["results"] == [row for row in every if row["confidence"] <= limit]
    assert some["num_below"] == len(some["results"]) < 5


async def test_a_page_within_the_token_budget_says_where_to_go_on(toolbox: Toolbox) -> None:
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE, output_path="out.jsonl")
    toolbox.settings = {"max_result_tokens": 100}
    page = await toolbox.call("review_uncertain", path="out.jsonl")
    assert 1 <= len(page["results"]) < 5 and page["next_offset"] == len(page["results"])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", "{", "a.jsonl line 1 is not JSON"),
        ("a.jsonl", "3\n", "a.jsonl row 1 is no row of a classified file; give the output_path"),
        ("a.jsonl", '{"index": 1, "path": "A"}\n', "row 1 is no row of a classified file"),
        ("a.csv", "title\nFork\n", "a.csv row 1 is no row of a classified file"),
    ],
)
async def test_another_file_is_refused(
    toolbox: Toolbox, name: str, content: str, expected: str
) -> None:
    toolbox.write(name, content)
    assert expected in await toolbox.error("review_uncertain", path=name)
