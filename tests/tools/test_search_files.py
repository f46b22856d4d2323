"""`search_files`, as an agent calls it, over real indexes and a fake worker."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from sie_mcp.tools.result import estimate_tokens
from sie_mcp.tools.vectors import PROBE
from tests.tools.conftest import Toolbox
from tests.tools.documents import docx, paragraph, pdf

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
QUERY = "who painted the violet door"
FACT = "The violet door was painted by Anna."


def fill(toolbox: Toolbox, files: dict[str, str | bytes]) -> None:
    """Write files as they were an hour ago, so that their times say whether they changed."""
    for name, content in files.items():
        (toolbox.folder / name).parent.mkdir(parents=True, exist_ok=True)
        toolbox.write(name, content)
        os.utime(toolbox.folder / name, (1_700_000_000, 1_700_000_000))


def encoded(toolbox: Toolbox) -> list[str]:
    """All texts that were embedded since the last look, but the query and the probe."""
    texts = [
        text
        for primitive, _, sent in toolbox.worker.calls
        if primitive == "encode"
        for text in sent
    ]
    toolbox.worker.calls.clear()
    return [text for text in texts if text not in (QUERY, PROBE)]


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(
        toolbox,
        {
            "art/doors.md": f"# Doors\n\nMany are red.\n\n## Violet\n\n{FACT}\n",
            "roads.txt": "Roads are long.\n\nWeather is wet.\n",
            "code/door.py": "def paint(door):\n    return door.with_colour('green')\n",
        },
    )
    return toolbox


async def test_the_passage_that_answers_comes_first_with_its_lines_and_text(
    filled: Toolbox,
) -> None:
    answer = await filled.call("search_files", query=QUERY)
    best = answer["results"][0]
    assert (best["path"], best["lines"]) == ("art/doors.md", "1-7")
    assert FACT in best["text"]
    assert answer["num_files"] == 3
    assert (answer["model"], answer["score_model"]) == ("toy-embedder", "toy-reranker")


async def test_a_model_is_named_once_and_a_score_is_short(filled: Toolbox) -> None:
    answer = await filled.call("search_files", query=QUERY, score_model="toy-embedder")
    assert answer["model"] == "toy-embedder" and "score_model" not in answer
    digits = [str(found["score"]).strip("-0.").replace(".", "") for found in answer["results"]]
    assert answer["results"] and all(len(one) <= 2 for one in digits)


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


async def test_paths_limit_the_search_to_folders_files_and_patterns(filled: Toolbox) -> None:
    await filled.call("search_files", query=QUERY)
    for paths, expected in [
        (["code"], {"code/door.py"}),
        ("roads.txt", {"roads.txt"}),
        (["**/*.md", "code/*"], {"art/doors.md", "code/door.py"}),
    ]:
        answer = await filled.call("search_files", query="door", paths=paths)
        assert {found["path"] for found in answer["results"]} == expected


async def test_ignored_hidden_installed_and_binary_files_are_passed_over(filled: Toolbox) -> None:
    text = "the violet door, again"
    fill(
        filled,
        {
            ".gitignore": "build/\n*.log\n!keep.log\n",
            "art/.gitignore": "/draft.md\n",
            "build/out.txt": text, "a.log": text, "keep.log": text, "art/draft.md": text,
            ".env": text, "node_modules/x/readme.md": text,
            "image.bin": b"\x89PNG\0\0", "latin.txt": b"caf\xe9", "empty.txt": "",
        },
    )  # fmt: skip
    answer = await filled.call("search_files", query=QUERY, top_k=20)
    assert {found["path"] for found in answer["results"]} == {
        "art/doors.md", "roads.txt", "code/door.py", "keep.log",
    }  # fmt: skip
    assert answer["skipped"]["count"] == 2
    assert any("an image" in reason for reason in answer["skipped"]["first"])
    # A path that names a file is a wish.
    named = await filled.call("search_files", query=QUERY, paths=["a.log"])
    assert named["results"][0]["path"] == "a.log"


async def test_the_answer_fits_the_budget(toolbox: Toolbox) -> None:
    fill(toolbox, {f"{n}.txt": f"Violet door {n}.\n" * 40 for n in range(12)})
    for max_tokens in (100, 400, 1_500):
        answer = await toolbox.call("search_files", query=QUERY, max_tokens=max_tokens, top_k=10)
        texts = [found["text"] for found in answer["results"] if "text" in found]
        assert texts or max_tokens == 100
        cost = sum(estimate_tokens(str(found)) for found in answer["results"])
        assert cost <= max_tokens * 1.1
    assert answer["results"][0]["text"].startswith("Violet door")


async def test_words_find_what_the_vectors_do_not(toolbox: Toolbox) -> None:
    files = {f"{n}.txt": "weather report " * 50 + f"code{n}x" for n in range(80)}
    fill(toolbox, files)
    answer = await toolbox.call("search_files", query="weather code47x", rerank=False)
    assert answer["results"][0]["path"] == "47.txt"
    # A file that came later is found by its words too, before they are indexed.
    fill(toolbox, {"later.txt": "weather report " * 50 + "zebra"})
    answer = await toolbox.call("search_files", query="weather zebra", rerank=False)
    assert answer["results"][0]["path"] == "later.txt"


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


async def test_of_a_long_file_it_says_how_far_it_came(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.index.update.PART_CHUNKS", 4)
    monkeypatch.setattr("sie_mcp.tools.index.update.is_late", lambda _: True)
    fill(toolbox, {"long.txt": "\n\n".join(f"{n} " * 400 for n in range(10))})
    said = await toolbox.error("search_files", query=QUERY)
    assert "0 of 1 files are done and 4 of " in said
    assert " passages of long.txt, and the next call goes on from there" in said


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


async def test_limits_are_named(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(toolbox, {f"{n}.txt": "text " * 400 for n in range(4)})
    monkeypatch.setattr("sie_mcp.tools.index.found.MAX_FILES", 3)
    assert "more than 3 files" in await toolbox.error("search_files", query=QUERY)
    monkeypatch.setattr("sie_mcp.tools.index.found.MAX_FILES", 30)
    monkeypatch.setattr("sie_mcp.tools.index.found.MAX_TOTAL_BYTES", 3_000)
    assert "the limit is 3,000" in await toolbox.error("search_files", query=QUERY)
    monkeypatch.undo()
    monkeypatch.setattr("sie_mcp.tools.index.update.MAX_CHUNKS", 3)
    assert "over 3 chunks" in await toolbox.error("search_files", query=QUERY)
    monkeypatch.undo()
    monkeypatch.setattr("sie_mcp.tools.index.reading.MAX_FILE_CHUNKS", 1)
    answer = await toolbox.call("search_files", query=QUERY)
    assert "more than 1 chunks" in answer["skipped"]["first"][0]


async def test_nothing_outside_is_searched(filled: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the violet door code")
    (filled.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (filled.folder / "out").symlink_to(tmp_path)
    answer = await filled.call("search_files", query=QUERY, top_k=20)
    assert all(
        "code/" in found["path"] or "link" not in found["path"] for found in answer["results"]
    )
    assert answer["num_files"] == 3
    for path in ("..", "link.txt", "out", "/etc", "../*.txt"):
        assert "outside the allowed folders" in await filled.error(
            "search_files", query=QUERY, paths=[path]
        )
    filled.files_allowed = False
    assert "no access to files" in await filled.error("search_files", query=QUERY)


async def test_errors_say_what_is_missing(filled: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no file or folder 'nope'" in await filled.error(
        "search_files", query=QUERY, paths=["nope"]
    )
    assert "no file in '*.rs'" in await filled.error("search_files", query=QUERY, paths=["*.rs"])
    filled.settings = {"index_dir": "/proc/nowhere"}
    assert "/proc/nowhere cannot be made" in await filled.error("search_files", query=QUERY)


async def test_a_search_is_in_one_allowed_folder(filled: Toolbox, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text(FACT)
    filled.more_folders = (other,)
    answer = await filled.call("search_files", query=QUERY, paths=[str(other)])
    assert answer["num_files"] == 1
    text = await filled.error("search_files", query=QUERY, paths=[".", str(other)])
    assert "search one at a time" in text


async def test_a_name_with_wildcards_is_a_file_where_there_is_one(filled: Toolbox) -> None:
    fill(filled, {"[a].txt": FACT, "a.txt": FACT})
    for path, expected in [("[a].txt", {"[a].txt"}), ("[a]*.txt", {"a.txt"})]:
        answer = await filled.call("search_files", query=QUERY, paths=[path])
        assert {found["path"] for found in answer["results"]} == expected


async def test_a_query_without_a_vector_says_why(filled: Toolbox) -> None:
    assert "the query has no vector: no memory" in await filled.error("search_files", query="FAIL")


async def test_without_the_library_the_error_says_how_to_install_it(
    filled: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sie_mcp.tools.index.store", None)
    monkeypatch.setattr(
        "sie_mcp.tools.optional.importlib.import_module",
        lambda name: (
            (_ for _ in ()).throw(ModuleNotFoundError(name="lancedb"))
            if name.endswith("store")
            else __import__(name, fromlist=["x"])
        ),
    )
    assert "pip install 'sie-mcp[search]'" in await filled.error("search_files", query=QUERY)


async def test_pages_and_paragraphs_are_places_too(toolbox: Toolbox) -> None:
    fill(
        toolbox,
        {
            "a.pdf": pdf(["Roads are long.", FACT, "Weather is wet."]),
            "b.docx": docx(paragraph("A violet thing.") + paragraph("Another violet thing.")),
            "c.html": f"<p>Nothing.</p><p>{FACT} Twice.</p>",
        },
    )
    answer = await toolbox.call("search_files", query=QUERY, top_k=10)
    places = {found["path"]: found for found in answer["results"] if "violet" in found["text"]}
    assert places["a.pdf"]["pages"] == "2"
    assert places["b.docx"]["paragraphs"] == "1-2"
    assert places["c.html"]["paragraphs"] == "1-2"


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
