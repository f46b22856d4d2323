"""Results in files: the same rows in each format, and a short answer beside them."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import DIMS

pytestmark = pytest.mark.anyio
SHOP = "id,title\np1,blue shirt for Anna\np2,\np3,red shoes for Bob and Anna\np4,blue hat\n"
CALLS: dict[str, dict[str, Any]] = {
    "rerank": {"query": "blue shirt", "return_text": True},
    "extract_entities": {"labels": ["NAME"]},
    "classify_taxonomy": {"taxonomy": ["Shirts", "Shoes"], "top_k": 2},
}
COLUMNS = {
    "rerank": ["index", "id", "source", "score", "truncated", "text"],
    "extract_entities": ["index", "id", "source", "label", "text", "start", "end", "score"],
    "classify_taxonomy": [
        "index", "id", "source", "text",
        "category_id", "path", "at_parent", "score", "confidence",
        "unsure", "truncated",
        "alternatives",
    ],
}  # fmt: skip


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read any of our tables."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


def as_texts(rows: list[dict[str, Any]], columns: list[str]) -> list[list[str]]:
    return [["" if row.get(n) is None else str(row[n]) for n in columns] for row in rows]


@pytest.mark.parametrize("tool", CALLS)
async def test_every_format_holds_the_same_rows(toolbox: Toolbox, tool: str) -> None:
    toolbox.write("shop.csv", SHOP)
    found = {}
    for ending in (".jsonl", ".csv", ".parquet"):
        name = f"out{ending}"
        answer = await toolbox.call(
            tool, path="shop.csv", columns=["title"], output_path=name, **CALLS[tool]
        )
        assert answer["output_path"] == str(toolbox.folder / name)
        found[ending] = rows_of(toolbox.folder / name)
    columns = COLUMNS[tool]
    assert list(found[".csv"][0]) == list(found[".parquet"][0]) == columns
    assert {row["source"] for row in found[".jsonl"]} <= {f"shop.csv line {n}" for n in (2, 4, 5)}
    plain = [name for name in columns if name != "alternatives"]
    texts = as_texts(found[".csv"], plain)
    assert texts == as_texts(found[".parquet"], plain) == as_texts(found[".jsonl"], plain)
    left = sorted(path.name for path in toolbox.folder.iterdir())
    assert left == ["out.csv", "out.jsonl", "out.parquet", "shop.csv"]


async def test_all_documents_are_written_and_the_best_are_shown(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "rerank",
        query="blue",
        documents=[f"blue {'x ' * n}" for n in range(40)],
        top_k=2,
        min_score=0.2,
        output_path="out.jsonl",
    )
    rows = rows_of(toolbox.folder / "out.jsonl")
    assert len(answer["results"]) == 2
    assert len(rows) == answer["num_written"] == 40 - answer["below_min_score"]
    assert [row["index"] for row in rows[:2]] == [entry["index"] for entry in answer["results"]]
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert "text" not in rows[0] and "source" not in rows[0]


async def test_every_mention_is_a_row_and_only_a_sample_is_shown(toolbox: Toolbox) -> None:
    texts = [f"Anna met Bob and Anna, {n}" for n in range(200)]
    answer = await toolbox.call("extract_entities", texts=texts, output_path="out.csv")
    rows = rows_of(toolbox.folder / "out.csv")
    assert len(rows) == answer["num_written"] == 600 == answer["counts"]["NAME"]
    for row in rows:
        text = texts[int(row["index"])]
        assert text[int(row["start"]) : int(row["end"])] == row["text"]
    assert answer["omitted"] + len(answer["results"]) == 200
    assert len(json.dumps(answer)) / 4 < 700 and "hint" not in answer


async def test_vectors_are_written_to_parquet(toolbox: Toolbox) -> None:
    toolbox.write("shop.csv", SHOP)
    answer = await toolbox.call(
        "embed", path="shop.csv", columns=["title"], output_path="out.parquet"
    )
    assert answer["shape"] == [3, DIMS]
    rows = rows_of(toolbox.folder / "out.parquet")
    assert [row["id"] for row in rows] == ["p1", "p3", "p4"]
    assert rows[1]["source"] == "shop.csv line 4"
    np.testing.assert_array_equal(
        np.array(rows[2]["vector"], np.float32), toolbox.worker.vector("blue hat")
    )


@pytest.mark.parametrize("tool", CALLS)
async def test_a_result_file_that_exists_is_refused_before_any_work(
    toolbox: Toolbox, tool: str
) -> None:
    toolbox.write("out.csv", "mine")
    argument = "documents" if tool == "rerank" else "texts"
    text = await toolbox.error(tool, **{argument: ["a"]}, output_path="out.csv", **CALLS[tool])
    assert text == "output_path: 'out.csv' exists and is not overwritten; choose another name"
    assert (toolbox.folder / "out.csv").read_text() == "mine"
    assert toolbox.worker.calls == []


async def test_a_result_of_a_pattern_can_be_read_again(toolbox: Toolbox) -> None:
    for name in ("a.txt", "b.txt"):
        toolbox.write(name, "blue shirt\nred shoes\n")
    await toolbox.call(
        "rerank", query="blue", path="*.txt", return_text=True, output_path="out.parquet"
    )
    answer = await toolbox.call("rerank", query="red", path="out.parquet", columns="text", top_k=1)
    assert answer["count"] == 4
    rows = rows_of(toolbox.folder / "out.parquet")
    assert {row["source"] for row in rows} == {
        f"{name} line {line}" for name in ("a.txt", "b.txt") for line in (1, 2)
    }
