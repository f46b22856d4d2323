"""The index of `search_files`: what is embedded again, what is not, and what breaks off."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from sie_mcp.tools.vectors import PROBE
from tests.tools.conftest import Toolbox
from tests.tools.searched_files import DOORS, QUERY, encoded, fill

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(toolbox, DOORS)
    return toolbox


async def test_a_second_search_embeds_the_query_alone(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    assert len(encoded(filled)) == 3
    first = await filled.call("search_files", query=QUERY, rerank=False)
    assert [sent for _, _, sent in filled.worker.calls] == [[QUERY, PROBE]]
    assert first["score_type"] == "rank_fusion"


async def test_only_what_changed_is_embedded_and_what_is_deleted_leaves(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    encoded(filled)
    fill(filled, {"new.txt": "A violet thing.", "roads.txt": "Roads are short and violet by now."})
    (filled.folder / "art/doors.md").unlink()
    answer = await filled.call("search_files", query=QUERY)
    assert sorted(encoded(filled)) == ["A violet thing.", "Roads are short and violet by now."]
    assert {found["path"] for found in answer["results"]} <= {
        "new.txt",
        "roads.txt",
        "code/door.py",
    }
    assert all("long" not in found["text"] for found in answer["results"])


async def test_a_moved_or_touched_file_is_not_embedded_again(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    encoded(filled)
    (filled.folder / "art/doors.md").rename(filled.folder / "moved.md")
    os.utime(filled.folder / "roads.txt", (1_700_000_100, 1_700_000_100))
    answer = await filled.call("search_files", query=QUERY)
    assert encoded(filled) == []
    assert answer["results"][0]["path"] == "moved.md"


async def test_a_file_that_shrank_leaves_no_old_chunks(toolbox: Toolbox) -> None:
    long = "\n\n".join(f"Paragraph {n} about violet doors. " * 10 for n in range(20))
    fill(toolbox, {"a.txt": long})
    first = await toolbox.call("search_files", query=QUERY, top_k=20)
    assert len(first["results"]) > 3
    fill(toolbox, {"a.txt": "A violet door."})
    second = await toolbox.call("search_files", query=QUERY, top_k=20)
    assert [found["text"] for found in second["results"]] == ["A violet door."]


async def test_another_model_of_the_same_name_makes_the_index_anew(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    encoded(filled)
    filled.worker.seed = "other weights"
    answer = await filled.call("search_files", query=QUERY)
    assert len(encoded(filled)) == 3
    assert answer["results"][0]["path"] == "art/doors.md"


async def test_a_file_whose_text_fails_is_told_and_tried_again(filled: Toolbox) -> None:
    fill(filled, {"bad.txt": "FAIL violet"})
    answer = await filled.call("search_files", query=QUERY)
    assert answer["incomplete_files"] == 1
    encoded(filled)
    await filled.call("search_files", query=QUERY)
    assert encoded(filled) == ["FAIL violet"]


async def test_what_a_killed_call_wrote_is_not_done_again(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.index.update.PART_CHUNKS", 4)
    fill(toolbox, {f"{n:02}.txt": f"text number n{n}" for n in range(20)})
    encode, calls = toolbox.worker.encode, 0

    async def killed(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise RuntimeError("killed")
        return await encode(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(toolbox.worker, "encode", killed)
    await toolbox.error("search_files", query=QUERY)
    assert len(encoded(toolbox)) == 8
    monkeypatch.setattr(toolbox.worker, "encode", encode)
    answer = await toolbox.call("search_files", query=QUERY)
    assert len(encoded(toolbox)) == 12
    assert answer["num_files"] == 20


async def test_an_index_that_takes_too_long_goes_on_in_the_next_call(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.index.update.PART_CHUNKS", 4)
    fill(toolbox, {f"{n:02}.txt": f"text number n{n}" for n in range(10)})
    monkeypatch.setattr("sie_mcp.tools.index.update.is_late", lambda _: True)
    assert "4 of 10 files are done" in await toolbox.error("search_files", query=QUERY)
    assert "4 of 6 files are done" in await toolbox.error("search_files", query=QUERY)


async def test_two_calls_at_once_do_the_work_once(filled: Toolbox) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(lambda: filled.call("search_files", query=QUERY))
    assert len(encoded(filled)) == 3


async def test_progress_says_how_many_files_are_done(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.index.update.PART_CHUNKS", 2)
    fill(toolbox, {f"{n}.txt": f"text number n{n}" for n in range(6)})
    await toolbox.call("search_files", query=QUERY)
    indexing = [report for report in toolbox.reports if report[2] == "indexing files, once"]
    assert len(indexing) == 3


async def test_an_index_may_lie_in_an_object_store(filled: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    filled.settings = {"index_dir": f"file://{tmp_path}/bucket"}
    await filled.call("search_files", query=QUERY)
    encoded(filled)
    answer = await filled.call("search_files", query=QUERY)
    assert encoded(filled) == []
    assert answer["results"][0]["path"] == "art/doors.md"
    assert any((tmp_path / "bucket").iterdir())


async def test_another_writer_without_a_common_lock_is_no_failure(
    filled: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflict(*_: object) -> None:
        raise RuntimeError("lance error: preempted by concurrent transaction Update")

    monkeypatch.setattr("sie_mcp.tools.index.store.Store._upsert", conflict)
    assert "another machine is indexing" in await filled.error("search_files", query=QUERY)
    monkeypatch.undo()
    await filled.call("search_files", query=QUERY)


async def test_a_broken_index_says_what_to_do(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    for file in (filled.cache / "indexes").rglob("*.manifest"):
        file.write_bytes(b"broken")
    assert "delete it to have it made again" in await filled.error("search_files", query=QUERY)


async def test_many_small_pieces_are_put_together(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.index.store.MAX_PIECES", 2)
    for n in range(5):
        fill(toolbox, {f"{n}.txt": f"violet door number n{n}"})
        answer = await toolbox.call("search_files", query=f"door n{n}", rerank=False)
        assert answer["results"][0]["path"] == f"{n}.txt"


async def test_a_file_that_vanishes_while_it_is_found_is_left_out(
    filled: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def vanish(*_: object) -> None:
        (filled.folder / "roads.txt").unlink(missing_ok=True)

    monkeypatch.setattr("sie_mcp.tools.index.update.acquire", lambda lock, *_: _taken(lock, vanish))
    answer = await filled.call("search_files", query=QUERY)
    assert {found["path"] for found in answer["results"]} == {"art/doors.md", "code/door.py"}


async def _taken(lock: Any, before: Any) -> None:
    await before()
    lock.acquire()
