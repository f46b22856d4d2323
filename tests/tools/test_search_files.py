"""`search_files`, as an agent calls it, over real indexes and a fake worker."""

from pathlib import Path

import pytest

from sie_mcp.tools.result import estimate_tokens
from tests.tools.conftest import Toolbox
from tests.tools.documents import docx, paragraph, pdf
from tests.tools.searched_files import DOORS, FACT, QUERY, fill

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(toolbox, DOORS)
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
