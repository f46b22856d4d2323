"""`find_similar`, as an agent calls it, over real indexes and a fake worker."""

import json

import pytest

from tests.tools.conftest import Toolbox
from tests.tools.documents import pdf
from tests.tools.searched_files import encoded, fill

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
HARBOUR = "The harbour opens at six and ships leave with the tide."


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(
        toolbox,
        {
            "a.md": f"# Port\n\n{HARBOUR}\n\n# Bread\n\nFlour and water make bread.\n",
            "b.txt": "Ships leave the harbour with the tide at six.\n",
            "c.txt": "Bread is made of flour and water.\n",
            "d.txt": "Nothing of the kind.\n",
        },
    )
    return toolbox


async def test_a_text_finds_the_passages_that_say_it_too(filled: Toolbox) -> None:
    answer = await filled.call("find_similar", text=HARBOUR, limit=2)
    assert [found["path"] for found in answer["results"]] == ["b.txt", "a.md"]
    best = answer["results"][0]
    assert best["lines"] == "1" and "tide" in best["text"]
    assert (answer["count"], answer["model"]) == (4, "toy-embedder")
    assert best["similarity"] > answer["results"][1]["similarity"] > 0.3


async def test_lines_of_a_file_find_others_but_not_themselves(filled: Toolbox) -> None:
    answer = await filled.call("find_similar", path="a.md", lines="3-3")
    assert answer["results"][0]["path"] == "b.txt"
    assert "a.md" not in {found["path"] for found in answer["results"]}
    answer = await filled.call("find_similar", path="a.md", limit=3)
    assert {found["path"] for found in answer["results"]} == {"b.txt", "c.txt", "d.txt"}
    answer = await filled.call("find_similar", path="c.txt", paths=["a.md", "c.txt"])
    assert [found["path"] for found in answer["results"]] == ["a.md"]


async def test_other_lines_of_the_same_file_are_found(toolbox: Toolbox) -> None:
    lines = [f"Filler {n} about thing{n} and more words here. " * 8 for n in range(12)]
    lines[1] = lines[10] = HARBOUR + " It is a busy port. " * 20
    fill(toolbox, {"a.txt": "\n\n".join(lines)})
    answer = await toolbox.call("find_similar", path="a.txt", lines="3", limit=1)
    (found,) = answer["results"]
    start, _, end = found["lines"].partition("-")
    assert int(start) <= 21 <= int(end or start)


async def test_the_index_of_search_files_is_used(filled: Toolbox) -> None:
    await filled.call("search_files", query="who painted the violet door")
    encoded(filled)
    await filled.call("find_similar", text=HARBOUR)
    assert encoded(filled) == [HARBOUR]
    # What is compared is read as a document, not as a question.
    assert filled.worker.roles[-2:] == [True, False]


async def test_what_another_process_writes_meanwhile_is_not_found_where_it_is_not_asked(
    filled: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled.call("find_similar", text=HARBOUR)
    monkeypatch.setattr("sie_mcp.tools.index.folder_index.FolderIndex._paths", lambda *_: None)
    answer = await filled.call("find_similar", text=HARBOUR, paths=["a.md", "c.txt"])
    assert [found["path"] for found in answer["results"]] == ["a.md", "c.txt"]


async def test_rows_like_a_row_and_like_a_text(toolbox: Toolbox) -> None:
    rows = ["ships leave at six", "bread of flour", "", "at six ships leave", "flour for bread"]
    data = "\n".join(json.dumps({"id": f"t{n}", "name": row}) for n, row in enumerate(rows))
    path = toolbox.write("t.jsonl", data)
    answer = await toolbox.call("find_similar", row=0, table=path, columns="name", limit=2)
    first, second = answer["results"]
    assert (first["index"], first["id"], first["similarity"]) == (3, "t3", 1)
    assert (first["text"], second["similarity"]) == (rows[3], 0)
    assert (answer["count"], answer["blank_rows"]) == (4, 1)
    encoded(toolbox)
    answer = await toolbox.call("find_similar", text="flour", table=path, columns="name", limit=2)
    assert [found["index"] for found in answer["results"]] == [1, 4]
    assert encoded(toolbox) == ["flour"]
    assert "no text in row 2" in await toolbox.error(
        "find_similar", row=2, table=path, columns="name"
    )


async def test_a_floor_and_a_budget_are_kept(filled: Toolbox) -> None:
    answer = await filled.call("find_similar", text=HARBOUR, min_similarity=0.9)
    assert [found["path"] for found in answer["results"]] == ["b.txt"]
    fill(filled, {f"long{n}.txt": f"{HARBOUR} {n} " * 15 for n in range(6)})
    answer = await filled.call("find_similar", text=HARBOUR, max_tokens=300)
    assert len(json.dumps(answer["results"])) / 4 < 330
    assert answer["texts_omitted"] > 0 and "max_tokens" in answer["hint"]


async def test_pages_are_places_too(filled: Toolbox) -> None:
    filled.write("p.pdf", pdf(["Roads are long.", HARBOUR, "Weather is wet."]))
    answer = await filled.call("find_similar", path="p.pdf", lines="2", limit=1)
    assert answer["results"][0]["path"] == "b.txt"
    answer = await filled.call("find_similar", path="b.txt", limit=1)
    assert (answer["results"][0]["path"], answer["results"][0]["pages"]) == ("p.pdf", "2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "send one of text, path"),
        ({"text": "a", "path": "a.md"}, "send one of text, path"),
        ({"text": " "}, "text is empty"),
        ({"text": "a", "lines": "1-2"}, "lines goes with path"),
        ({"row": 1}, "row goes with table"),
        ({"text": "a", "table": "t.csv", "paths": ["b.txt"]}, "paths or table"),
        ({"text": "a", "columns": ["x"]}, "columns goes with table"),
        ({"path": "a.md", "lines": "9-3"}, "write it like 12-30"),
        ({"path": "a.md", "lines": "some"}, "write it like 12-30"),
        ({"path": "a.md", "lines": "90-93"}, "no text there; it has 7 lines"),
        ({"path": "."}, "is a folder"),
        ({"path": "../x"}, "outside the allowed folders"),
        ({"text": "long words " * 5_000}, "the limit is 32"),
    ],
)
async def test_wrong_calls_say_what_would_work(
    filled: Toolbox, arguments: dict[str, object], words: str
) -> None:
    assert words in await filled.error("find_similar", **arguments)
