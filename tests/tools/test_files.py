"""Files in arguments: which may be read or written, and what their content must be."""

import json
import os
from pathlib import Path

import pytest

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import Folders
from tests.tools.conftest import Toolbox

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
