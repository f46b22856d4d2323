"""`deduplicate`, as an agent calls it, over a real store and a fake worker."""

import csv
import json
from typing import Any

import anyio
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from sie_mcp.tools.duplicates import Leaders
from tests.tools.conftest import Toolbox
from tests.tools.searched_files import encoded, fill

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
LIMIT_S = 30.0
ROWS = [
    "red cotton shirt for men with long sleeves",
    "steel kettle 2 litres",
    "red  cotton shirt for men with long sleeves",
    "Red Cotton Shirt for men with long sleeves",
    "steel kettle 3 litres",
    "a garden hose",
]


def table(toolbox: Toolbox) -> str:
    lines = [json.dumps({"id": f"r{n}", "text": text}) for n, text in enumerate(ROWS)]
    return toolbox.write("rows.jsonl", "\n".join(lines))


async def test_same_words_and_near_ones_are_one_group(toolbox: Toolbox) -> None:
    answer = await toolbox.call("deduplicate", texts=ROWS)
    assert (answer["count"], answer["num_kept"]) == (6, 4)
    assert (answer["num_exact"], answer["num_near"]) == (1, 1)
    (group,) = answer["groups"]
    assert group["keep"] == {"index": 0}
    assert [found["index"] for found in group["duplicates"]] == [2, 3]
    assert all(found["similarity"] == 1 for found in group["duplicates"])


async def test_numbers_part_what_is_alike_unless_asked_otherwise(toolbox: Toolbox) -> None:
    texts = ["steel kettle with lid size 2", "steel kettle with lid size 3"]
    assert (await toolbox.call("deduplicate", texts=texts, threshold=0.8))["num_kept"] == 2
    answer = await toolbox.call("deduplicate", texts=texts, threshold=0.8, same_numbers=False)
    assert answer["num_kept"] == 1
    (unsure,) = answer["least_similar"]
    assert (unsure["keep"], unsure["duplicate"]) == (texts[0], texts[1])
    assert 0.8 <= unsure["similarity"] < 0.9


@pytest.mark.parametrize(("rule", "kept"), [("first", 0), ("last", 3), ("longest", 2)])
async def test_which_one_is_kept(toolbox: Toolbox, rule: str, kept: int) -> None:
    answer = await toolbox.call("deduplicate", texts=ROWS, keep=rule)
    assert [group["keep"]["index"] for group in answer["groups"]] == [kept]


async def test_a_second_call_embeds_nothing_again(toolbox: Toolbox) -> None:
    path = table(toolbox)
    first = await toolbox.call("deduplicate", path=path)
    assert sorted(encoded(toolbox)) == sorted(ROWS)
    assert await toolbox.call("deduplicate", path=path) == first
    await toolbox.call("deduplicate", path=path, threshold=0.6)
    assert encoded(toolbox) == []
    toolbox.worker.seed = "other weights"
    await toolbox.call("deduplicate", path=path)
    assert sorted(encoded(toolbox)) == sorted(ROWS)


async def test_the_kept_rows_are_written(toolbox: Toolbox) -> None:
    answer = await toolbox.call("deduplicate", path=table(toolbox), output_path="kept.csv")
    assert answer["num_written"] == 4
    with (toolbox.folder / "kept.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["index"], row["id"]) for row in rows] == [
        ("0", "r0"), ("1", "r1"), ("4", "r4"), ("5", "r5"),
    ]  # fmt: skip
    assert rows[1]["text"] == ROWS[1]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_a_table_keeps_its_columns_and_what_was_not_compared(
    toolbox: Toolbox, ending: str
) -> None:
    rows = [
        {"sku": n, "text": text, "note": f"a, {n}\nb"} for n, text in enumerate([*ROWS, "", "FAIL"])
    ]
    kept = [row for row in rows if row["sku"] not in (2, 3)]
    path = f"t.{ending}"
    if ending == "csv":
        with (toolbox.folder / path).open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    elif ending == "jsonl":
        toolbox.write(path, "\n\n".join(json.dumps(row | {"deep": [1]}) for row in rows))
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), toolbox.folder / path)
    output = f"out.{ending}"
    answer = await toolbox.call("deduplicate", path=path, columns="text", output_path=output)
    assert answer["num_written"] == 6
    written = toolbox.folder / output
    if ending == "csv":
        with written.open(newline="") as file:
            assert list(csv.DictReader(file)) == [
                {name: str(value) for name, value in row.items()} for row in kept
            ]
    elif ending == "jsonl":
        lines = written.read_text().splitlines()
        assert [json.loads(line) for line in lines] == [row | {"deep": [1]} for row in kept]
    else:
        assert parquet.read_table(written).to_pylist() == kept


async def test_a_table_that_changes_meanwhile_is_not_copied(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(toolbox)
    encode = toolbox.worker.encode

    async def change(*arguments: Any, **options: Any) -> Any:
        toolbox.write(path, '{"text": "new"}')
        return await encode(*arguments, **options)

    monkeypatch.setattr(toolbox.worker, "encode", change)
    text = await toolbox.error("deduplicate", path=path, output_path="out.jsonl")
    assert "was changed meanwhile" in text
    assert not (toolbox.folder / "out.jsonl").exists()


async def test_all_rows_are_written_with_their_groups(toolbox: Toolbox) -> None:
    await toolbox.call(
        "deduplicate", path=table(toolbox), output_path="all.jsonl", write="all", keep="last"
    )
    rows = [json.loads(line) for line in (toolbox.folder / "all.jsonl").read_text().splitlines()]
    assert [row["index"] for row in rows] == list(range(6))
    assert len({row["group"] for row in rows}) == 4
    assert [row["index"] for row in rows if row["kept"]] == [1, 3, 4, 5]
    assert rows[0]["group"] == rows[2]["group"] == rows[3]["group"]


async def test_files_and_passages_of_a_folder(toolbox: Toolbox) -> None:
    long = "\n\n".join(f"Chapter {n} tells of thing{n} and other{n}. " * 12 for n in range(4))
    fill(toolbox, {"a.md": long, "b/copy.md": long, "c.md": "Something else.", "d.bin": b"\0\1"})
    answer = await toolbox.call("deduplicate", path=".")
    assert (answer["unit"], answer["count"], answer["num_kept"]) == ("file", 3, 2)
    (group,) = answer["groups"]
    assert group["keep"] == {"path": "a.md"}
    assert [found["path"] for found in group["duplicates"]] == ["b/copy.md"]
    assert answer["skipped"]["count"] == 1
    encoded(toolbox)
    answer = await toolbox.call("deduplicate", path="**/*.md", unit="passage")
    assert encoded(toolbox) == []
    assert answer["count"] == 5 and answer["num_exact"] == 2
    assert {"path", "lines"} == answer["groups"][0]["keep"].keys()


async def test_what_is_kept_of_several_tables_and_of_a_folder_is_written(toolbox: Toolbox) -> None:
    fill(toolbox, {"in/a.csv": "text\nred shirt\nblue hat\n", "in/b.csv": "text\nred shirt\n"})
    answer = await toolbox.call("deduplicate", path="in/*.csv", output_path="rows.csv")
    assert (answer["unit"], answer["num_written"]) == ("row", 2)
    assert answer["groups"][0]["duplicates"][0]["source"] == "in/b.csv line 2"
    answer = await toolbox.call(
        "deduplicate", path="in", same_numbers=False, threshold=0.5, output_path="files.jsonl"
    )
    (row,) = map(json.loads, (toolbox.folder / "files.jsonl").read_text().splitlines())
    assert (row["path"], row["kept"]) == ("in/a.csv", True)


async def test_what_begins_alike_is_no_duplicate_for_that(toolbox: Toolbox) -> None:
    head = "the same long beginning of both texts " * 30
    texts = [head + "apples pears plums " * 60, head + "steel iron copper " * 60]
    assert (await toolbox.call("deduplicate", texts=texts))["num_kept"] == 2


async def test_a_text_that_fails_is_told_and_the_others_are_compared(toolbox: Toolbox) -> None:
    answer = await toolbox.call("deduplicate", texts=["a b", "FAIL", "a b"])
    assert (answer["count"], answer["num_kept"], answer["failed"]["count"]) == (2, 1, 1)
    assert answer["groups"][0]["duplicates"][0]["index"] == 2
    assert "no memory" in await toolbox.error("deduplicate", texts=["FAIL", "FAIL more"])


async def test_work_that_is_late_goes_on_in_the_next_call(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.text_vectors.PART_TEXTS", 2)
    monkeypatch.setattr("sie_mcp.tools.text_vectors.is_late", lambda _: True)
    path = table(toolbox)
    assert "2 of 6 are done" in await toolbox.error("deduplicate", path=path)
    assert "2 of 4 are done" in await toolbox.error("deduplicate", path=path)
    assert (await toolbox.call("deduplicate", path=path))["num_kept"] == 4
    assert "embedding texts, once" in {report[2] for report in toolbox.reports}


async def test_a_call_that_is_cancelled_stops_and_what_it_embedded_stays(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.text_vectors.PART_TEXTS", 2)
    path = table(toolbox)
    encode, is_waiting = toolbox.worker.encode, anyio.Event()
    is_cancelled = anyio.Event()

    async def wait_at_the_third(*arguments: Any, **options: Any) -> Any:
        if len(toolbox.worker.calls) < 3:
            return await encode(*arguments, **options)
        is_waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            is_cancelled.set()

    monkeypatch.setattr(toolbox.worker, "encode", wait_at_the_third)
    with anyio.fail_after(LIMIT_S):
        async with toolbox.client() as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "deduplicate", {"path": path})
            await is_waiting.wait()
            group.cancel_scope.cancel()
        await is_cancelled.wait()
    assert len(encoded(toolbox)) == 4
    monkeypatch.setattr(toolbox.worker, "encode", encode)
    await toolbox.call("deduplicate", path=path)
    assert len(encoded(toolbox)) == 2


async def test_without_files_and_index_dir_nothing_is_stored(toolbox: Toolbox) -> None:
    toolbox.files_allowed = False
    assert (await toolbox.call("deduplicate", texts=ROWS))["num_kept"] == 4
    assert not toolbox.cache.exists()
    assert "no access to files" in await toolbox.error("deduplicate", path="rows.jsonl")
    # In an object store they are kept, and nothing is written on this machine.
    (toolbox.folder / "bucket").mkdir()
    toolbox.settings = {"index_dir": f"file://{toolbox.folder}/bucket"}
    for _ in range(2):
        encoded(toolbox)
        await toolbox.call("deduplicate", texts=ROWS)
    assert encoded(toolbox) == []
    assert not toolbox.cache.exists()


async def test_wrong_sources_are_refused(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "send at least one text" in await toolbox.error("deduplicate")
    assert "goes with a folder" in await toolbox.error("deduplicate", texts=["a"], unit="file")
    fill(toolbox, {"a.txt": "word " * 2_000})
    monkeypatch.setattr("sie_mcp.tools.collection.MAX_TEXTS", 3)
    assert "the limit is 3" in await toolbox.error("deduplicate", path=".", unit="passage")
    fill(toolbox, {"only/blank.txt": " \n"})
    assert "holds a text" in await toolbox.error("deduplicate", path="only")


def test_no_chain_joins_what_is_far_apart() -> None:
    """On an arc of small steps everything dropped is near what is kept, whatever the blocks."""
    angles = np.linspace(0, np.pi / 2, 700)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = Leaders(vectors, 0.99, np.zeros(700, np.int64))
    for block in found.blocks:
        found.step(block)
    cosines = (vectors * vectors[found.leader]).sum(axis=1)
    assert cosines.min() >= 0.99 - 1e-4
    assert np.allclose(cosines, found.similarity, atol=1e-5)
    kept = np.unique(found.leader)
    assert 5 < len(kept) < 15
    assert (found.leader[kept] == kept).all()
    between = vectors[kept] @ vectors[kept].T
    np.fill_diagonal(between, -1)
    assert between.max() < 0.99
