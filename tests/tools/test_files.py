"""Files in arguments: which may be read or written, and what their content must be."""

import json
import os
import re
from pathlib import Path

import pytest

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import Folders
from tests.tools.conftest import Toolbox
from tests.tools.documents import parquet

pytestmark = pytest.mark.anyio


@pytest.fixture
def secret(toolbox: Toolbox) -> Path:
    """A file beside the allowed folder."""
    path = toolbox.folder.parent / "secret.txt"
    path.write_text("do not read me")
    return path


async def read_error(toolbox: Toolbox, path: str, **more: object) -> str:
    text = await toolbox.error("embed", path=path, **more)
    assert toolbox.worker.calls == []
    assert "do not read me" not in text
    return text


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "sub/../../secret.txt",
        "/etc/passwd.txt",
        "/proc/self/environ.txt",
        "/proc/self/root/etc/hosts.txt",
        "/proc/self/cwd/pyproject.md",
        "/../../etc/hosts.txt",
        "../missing.txt",
    ],
)
async def test_a_path_outside_is_refused_in_the_same_words_whether_it_exists_or_not(
    toolbox: Toolbox, secret: Path, path: str
) -> None:
    text = await read_error(toolbox, path)
    assert text == f"path: {path!r} is outside the allowed folders: {toolbox.folder}"


async def test_an_absolute_path_to_a_secret_is_refused(toolbox: Toolbox, secret: Path) -> None:
    assert "outside the allowed folders" in await read_error(toolbox, str(secret))


@pytest.mark.parametrize("kind", ["file", "folder", "loop"])
async def test_a_link_that_leads_outside_is_refused(
    toolbox: Toolbox, secret: Path, kind: str
) -> None:
    link = toolbox.folder / ("link" if kind == "folder" else "link.txt")
    link.symlink_to({"file": secret, "folder": secret.parent, "loop": link}[kind])
    path = "link/secret.txt" if kind == "folder" else "link.txt"
    text = await read_error(toolbox, path)
    assert ("no file" if kind == "loop" else "outside the allowed folders") in text


async def test_a_link_inside_the_folder_is_followed(toolbox: Toolbox) -> None:
    toolbox.write("real.txt", "one\ntwo")
    (toolbox.folder / "link.txt").symlink_to("real.txt")
    assert (await toolbox.call("embed", path="link.txt"))["count"] == 2


async def test_a_folder_that_is_a_link_itself_is_allowed(toolbox: Toolbox) -> None:
    toolbox.write("real.txt", "one")
    link = toolbox.folder.parent / "link"
    link.symlink_to(toolbox.folder)
    toolbox.folder = link
    assert (await toolbox.call("embed", path=str(link / "real.txt")))["count"] == 1


async def test_a_fifo_is_refused_and_does_not_hang(toolbox: Toolbox) -> None:
    os.mkfifo(toolbox.folder / "pipe.txt")
    assert await read_error(toolbox, "pipe.txt") == "pipe.txt is not a regular file"


async def test_a_folder_is_no_file(toolbox: Toolbox) -> None:
    (toolbox.folder / "folder.txt").mkdir()
    text = await read_error(toolbox, "folder.txt")
    assert text.startswith("path: 'folder.txt' is a folder; name a file in it, or a pattern like")


async def test_a_file_that_may_not_be_opened_is_named(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolbox.write("mine.txt", "a")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sie_mcp.tools.opening.os.open", refuse)
    assert await read_error(toolbox, "mine.txt") == "mine.txt cannot be read: Permission denied"


async def test_a_file_larger_than_the_limit_is_refused_with_its_size(toolbox: Toolbox) -> None:
    with (toolbox.folder / "big.txt").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    text = await read_error(toolbox, "big.txt")
    assert text == (
        "big.txt has 67,108,865 bytes; the limit is 67,108,864 (max_file_bytes); split it"
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("missing.csv", "path: no file 'missing.csv' in the allowed folders: "),
        ("report.ods", "path: 'report.ods' is a .ods file; known: .csv, .tsv, .jsonl, .txt, "),
        ("report", "path: 'report' has no ending; known: .csv"),
        ("a\0b.txt", "path: 'a\\x00b.txt' holds a null character"),
        ("n" * 300 + ".txt", "path: no file 'nnn"),
    ],
)
async def test_a_path_that_cannot_be_used_is_refused_with_the_reason(
    toolbox: Toolbox, path: str, expected: str
) -> None:
    assert (await read_error(toolbox, path)).startswith(expected)


async def test_files_are_off_where_callers_are_remote(toolbox: Toolbox) -> None:
    toolbox.write("a.txt", "a")
    toolbox.files_allowed = False
    expected = "no access to files on this server; send the texts in the call"
    assert await read_error(toolbox, "a.txt") == f"path: {expected}"
    text = await toolbox.error("embed", texts=["a"], output_path="out.npy")
    assert text == f"output_path: {expected}"
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy="a.txt")
    assert text == f"taxonomy: {expected}"


@pytest.mark.parametrize("path", ["../out.npy", "/tmp/out.npy", "/proc/out.npy"])
async def test_nothing_is_written_outside(toolbox: Toolbox, path: str) -> None:
    text = await toolbox.error("embed", texts=["a"], output_path=path)
    assert "outside the allowed folders" in text


async def test_a_dangling_link_is_no_way_out(toolbox: Toolbox) -> None:
    target = toolbox.folder.parent / "new.npy"
    (toolbox.folder / "out.npy").symlink_to(target)
    text = await toolbox.error("embed", texts=["a"], output_path="out.npy")
    assert "outside the allowed folders" in text and not target.exists()


async def test_an_output_needs_a_folder_that_exists_and_a_known_ending(toolbox: Toolbox) -> None:
    text = await toolbox.error("embed", texts=["a"], output_path="no/out.npy")
    assert text == "output_path: the folder of 'no/out.npy' does not exist"
    text = await toolbox.error("embed", texts=["a"], output_path="out.csv")
    assert text == "output_path: 'out.csv' is a .csv file; known: .npy, .jsonl, .parquet"


async def test_a_write_that_fails_leaves_nothing_behind(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sie_mcp.tools.outputs.os.fsync", full)
    text = await toolbox.error("embed", texts=["a"], output_path="out.jsonl")
    assert text == f"{toolbox.folder}/out.jsonl cannot be written: No space left on device"
    assert list(toolbox.folder.iterdir()) == []


async def texts_of(toolbox: Toolbox, name: str, content: str | bytes, **more: object) -> list[str]:
    """Write a file, embed it, and return the texts that the worker saw."""
    toolbox.write(name, content)
    await toolbox.call("embed", path=name, **more)
    return toolbox.worker.calls[-1][2]


TABLE = "ID,Title,description\n1, Blue shirt ,Soft.\n2,Hat,\n"


async def test_columns_are_joined_in_the_order_asked(toolbox: Toolbox) -> None:
    columns = ["title", "Description"]
    assert await texts_of(toolbox, "a.csv", TABLE, columns=columns) == ["Blue shirt. Soft.", "Hat"]
    tabs = TABLE.replace(",", "\t")
    assert await texts_of(toolbox, "a.tsv", tabs, columns="description") == ["Soft."]


async def test_a_column_named_text_or_the_only_one_is_the_default(toolbox: Toolbox) -> None:
    assert await texts_of(toolbox, "a.csv", "id,other,Text\n1,x,y\n") == ["y"]
    assert await texts_of(toolbox, "b.csv", "\ufeffid,title\n1,x\n\n2,z\n") == ["x", "z"]
    assert await texts_of(toolbox, "c.jsonl", '{"text": "x", "n": 1}\n\n"plain"\n') == [
        "x",
        "plain",
    ]


async def test_values_that_are_no_texts_are_written_as_texts(toolbox: Toolbox) -> None:
    lines = '{"id": 3, "a": 1.5, "tags": ["x"]}\n{"a": true}\n{"a": null}\n{"id": "z"}\n'
    assert await texts_of(toolbox, "a.jsonl", lines, columns=["a"]) == ["1.5", "True"]


async def test_the_entries_of_a_list_are_one_text(toolbox: Toolbox) -> None:
    lines = (
        '{"a": ["cotton", " soft ", null, "", 3, true]}\n{"a": []}\n{"a": [null]}\n'
        '{"a": ["It fits.", "Is it warm?", "Yes"], "b": "End"}\n{"a": "one"}\n'
    )
    assert await texts_of(toolbox, "a.jsonl", lines, columns=["a"]) == [
        "cotton. soft. 3. True",
        "It fits. Is it warm? Yes",
        "one",
    ]
    assert "It fits. Is it warm? Yes. End" in await texts_of(
        toolbox, "b.jsonl", lines, columns=["a", "b"]
    )


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ({"id": 1, "text": ["x", "y"], "n": 2}, ["x. y"]),
        ({"id": 1, "tags": ["x", "y"]}, ["x. y"]),
        ({"body": "b", "tags": ["x"], "meta": {"k": 1}}, ["b"]),
        ({"id": {"$oid": "7"}, "body": "b"}, ["b"]),
    ],
)
async def test_lists_are_the_obvious_column_where_no_text_is(
    toolbox: Toolbox, line: dict[str, object], texts: list[str]
) -> None:
    assert await texts_of(toolbox, "a.jsonl", json.dumps(line) + "\n") == texts
    assert await texts_of(toolbox, "a.parquet", parquet(**{k: [v] for k, v in line.items()})) == (
        texts
    )


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ({"k": "v"}, "an object"),
        ([["x"]], "a list of lists or objects"),
        (["x", {"k": 1}], "a list of lists or objects"),
    ],
)
async def test_a_column_of_objects_is_refused_by_name_and_line(
    toolbox: Toolbox, value: object, held: str
) -> None:
    lines = json.dumps({"a": "x"}) + "\n" + json.dumps({"a": value}) + "\n"
    toolbox.write("a.jsonl", lines)
    for tool in ("embed", "detect_pii", "classify"):
        labels = {"labels": ["x", "y"]} if tool == "classify" else {}
        text = await toolbox.error(tool, path="a.jsonl", columns=["a"], **labels)
        assert text == (
            f"a.jsonl, line 2: the column 'a' holds {held}, no text; name another one, or write "
            "what is wanted of it into a column of its own"
        )


async def test_lines_of_a_text_file_are_texts_for_a_tool_of_short_texts(toolbox: Toolbox) -> None:
    lines = "one\r\n\ntwo\u2028still two\n"
    assert await texts_of(toolbox, "a.txt", lines) == ["one", "two\u2028still two"]


async def test_a_cell_may_be_longer_than_csv_allows_by_itself(toolbox: Toolbox) -> None:
    (text,) = await texts_of(toolbox, "a.csv", "text\n" + "a" * 200_000 + "\n")
    assert len(text) == 200_000


BROKEN: dict[str, tuple[str | bytes, list[str], str]] = {
    "latin.txt": ("Größe".encode("latin-1"), [], "latin.txt is not UTF-8 (byte 0xf6 at 2)"),
    "which.csv": (TABLE, [], "which.csv: say which `columns` to read; there are ID, Title, descr"),
    "typo.csv": (TABLE, ["titel"], "no column 'titel'; there are .*; did you mean 'Title'?"),
    "none.csv": (TABLE, ["zzz"], "no column 'zzz'; there are ID, Title, description"),
    "short.csv": ("text,b\nx\n", [], "short.csv, line 2: 1 cells, but 2 columns"),
    "quote.csv": ('text\n"x\n', [], "quote.csv, line "),
    "header.csv": ("text\n", [], "header.csv holds no rows"),
    "empty.jsonl": ("\n", ["a"], "empty.jsonl: no column 'a'; there are "),
    "lines.txt": ("a\n", ["a"], "lines.txt has no columns; leave `columns` out"),
    "blank.txt": (" \n\n", [], "blank.txt: all 2 rows are empty in these columns"),
    "bad.jsonl": ('{"text": "a"}\n{bad\n', [], "bad.jsonl, line 2: not JSON"),
    "list.jsonl": (
        '["a"]\n',
        [],
        "list.jsonl, line 1: expected an object or a text, not '[\"a\"]'",
    ),
    "many.txt": ("a\n" * 10_001, [], "many.txt: more than 10,000 rows, the limit; split it"),
    "lone.jsonl": ('{"text": "a\\ud800"}\n', [], "lone.jsonl line 1 holds a lone surrogate at ch"),
    "long.txt": ("a\n" + "b" * 2_000_001, [], "long.txt line 2 has 2,000,001 characters; the lim"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_content_that_cannot_be_used_is_refused_with_the_place_and_the_reason(
    toolbox: Toolbox, name: str
) -> None:
    content, columns, expected = BROKEN[name]
    toolbox.write(name, content)
    text = await read_error(toolbox, name, columns=columns)
    pattern = re.escape(expected).replace(re.escape(".*"), ".*")
    assert re.search(pattern, text), text


async def test_the_first_allowed_folder_that_has_the_file_is_read(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "b.txt").write_text("from the second")
    toolbox.write("a.txt", "from the first")
    toolbox.more_folders = (second,)
    await toolbox.call("embed", path="b.txt")
    assert toolbox.worker.calls[-1][2] == ["from the second"]
    answer = await toolbox.call("embed", path="a.txt", output_path=str(second / "out.jsonl"))
    assert json.loads((second / "out.jsonl").read_text())["index"] == 0
    assert answer["output_path"] == str(second / "out.jsonl")


@pytest.mark.parametrize("path", ["rows.csv", ".", "*.csv"])
@pytest.mark.parametrize(("name", "what"), [("gone", "not there"), ("file", "no folder")])
def test_an_allowed_folder_that_is_none_is_named_with_what_to_mend(
    tmp_path: Path, path: str, name: str, what: str
) -> None:
    (tmp_path / "file").write_text("a")
    folders = Folders((tmp_path / name,))
    for look in (folders.to_read, folders.to_read_all, folders.to_write):
        with pytest.raises(InvalidInput) as refused:
            look(path, (".csv",), argument="path")
        assert f"{tmp_path / name} (which is {what}: start the server with" in str(refused.value)


async def test_an_allowed_folder_beside_one_that_is_gone_is_read(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    toolbox.write("rows.csv", "text\na\n")
    toolbox.more_folders = (tmp_path / "gone",)
    assert (await toolbox.call("embed", path="rows.csv"))["count"] == 1
