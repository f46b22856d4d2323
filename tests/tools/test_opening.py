"""What changes between the check of a path and its opening, and what is no file at all."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import Folders
from sie_mcp.tools.opening import open_file
from sie_mcp.tools.outputs import write_new
from sie_mcp.tools.readers.formats import FORMATS
from sie_mcp.tools.sources import read_files
from tests.tools.conftest import Toolbox
from tests.tools.documents import docx, paragraph, parquet, pdf

pytestmark = pytest.mark.anyio
LIMIT = 1_000_000
SECRET = "do not read me"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """An allowed folder with sub/a.txt, and a folder outside with a.txt."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (inside / "sub" / "a.txt").write_text("harmless")
    (outside / "a.txt").write_text(SECRET)
    return inside, outside


def test_a_folder_that_becomes_a_link_after_the_check_is_refused(
    places: tuple[Path, Path],
) -> None:
    inside, outside = places
    path = Folders((inside,)).to_read("sub/a.txt", FORMATS)
    (inside / "sub").rename(inside / "old")
    (inside / "sub").symlink_to(outside)
    with pytest.raises(InvalidInput, match="a folder on the way, was replaced by a link"):
        open_file(path, LIMIT)


def test_a_file_that_becomes_a_link_after_the_check_is_refused(
    places: tuple[Path, Path],
) -> None:
    inside, outside = places
    path = Folders((inside,)).to_read("sub/a.txt", FORMATS)
    (inside / "sub" / "a.txt").unlink()
    (inside / "sub" / "a.txt").symlink_to(outside / "a.txt")
    with pytest.raises(InvalidInput, match="was replaced by a link"):
        open_file(path, LIMIT)


def test_a_file_that_becomes_a_folder_or_goes_away_after_the_check_is_refused(
    places: tuple[Path, Path],
) -> None:
    inside, _ = places
    path = Folders((inside,)).to_read("sub/a.txt", FORMATS)
    (inside / "sub" / "a.txt").unlink()
    with pytest.raises(InvalidInput, match=r"sub/a.txt cannot be read: No such file"):
        open_file(path, LIMIT)
    (inside / "sub" / "a.txt").mkdir()
    with pytest.raises(InvalidInput, match=r"sub/a.txt is not a regular file"):
        open_file(path, LIMIT)


def test_a_folder_that_becomes_a_link_is_not_written_into(places: tuple[Path, Path]) -> None:
    inside, outside = places
    path = Folders((inside,)).to_write("sub/new.csv", [".csv"], argument="output_path")
    (inside / "sub").rename(inside / "old")
    (inside / "sub").symlink_to(outside)
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_new(path, lambda file: file.write(b"x"))
    assert [one.name for one in outside.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_a_name_that_is_taken_meanwhile_is_not_overwritten(
    places: tuple[Path, Path], make: Callable[[Path], Any]
) -> None:
    inside, _ = places
    path = Folders((inside,)).to_write("new.csv", [".csv"], argument="output_path")
    make(inside / "new.csv")
    with pytest.raises(InvalidInput, match="was made by somebody else meanwhile"):
        write_new(path, lambda file: file.write(b"x"))
    assert sorted(one.name for one in inside.iterdir()) == ["new.csv", "sub"]


async def test_a_socket_and_a_device_are_no_files(toolbox: Toolbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # A socket's path has a short limit.
        os.symlink(toolbox.folder, link := f"/tmp/sie-test-{os.getpid()}")
        try:
            server.bind(f"{link}/s.txt")
        finally:
            os.unlink(link)
        text = await toolbox.error("embed", path="s.txt")
    assert text.startswith("s.txt cannot be read: ") or "is not a regular file" in text
    toolbox.more_folders = (Path("/dev"),)
    (toolbox.folder / "null.txt").symlink_to("/dev/null")
    assert "null.txt is not a regular file" in await toolbox.error("embed", path="null.txt")


async def test_files_that_the_system_makes_up_are_refused_even_in_an_allowed_folder(
    toolbox: Toolbox,
) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system has no /proc")
    toolbox.more_folders = (Path("/proc/self"),)
    (toolbox.folder / "env.txt").symlink_to("/proc/self/environ")
    text = await toolbox.error("embed", path="env.txt")
    assert text in {
        "env.txt is empty (0 bytes)",
        f"path: 'env.txt' is outside the allowed folders: {toolbox.folder}, /proc/self",
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("\\\\server\\share\\a.txt", "holds a backslash; write / between folders"),
        ("\\\\?\\C:\\a.txt", "holds a backslash"),
        ("C:\\a.txt", "holds a backslash"),
        ("..\\secret.txt", "holds a backslash"),
        ("//server/share/a.txt", "is outside the allowed folders"),
        ("file:///etc/hosts.txt", "is a URL; only files are read: download it first"),
        ("https://example.com/a.pdf", "is a URL"),
        ("~/a.txt", "no file '~/a.txt'"),
        (".", "is a folder; name a file in it, or a pattern like './**/*.md'"),
        ("/dev/zero", "is outside the allowed folders"),
        ("/proc/1/root/etc/hosts.txt", "is outside the allowed folders"),
        ("a\ud800.txt", "holds a lone surrogate at character 1"),
    ],
)
async def test_paths_of_other_systems_and_no_files_are_refused(
    toolbox: Toolbox, path: str, expected: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        Folders((toolbox.folder,)).to_read_all(path, FORMATS)
    assert expected in str(error.value)
    if "\ud800" not in path:
        assert expected in await toolbox.error("embed", path=path)


async def test_a_file_of_ten_gigabytes_is_refused_at_once(toolbox: Toolbox) -> None:
    for ending in FORMATS:
        with (toolbox.folder / f"big{ending}").open("wb") as file:
            file.truncate(10 * 1024**3)
        text = await toolbox.error("embed", path=f"big{ending}")
        assert text == (
            f"big{ending} has 10,737,418,240 bytes; the limit is 67,108,864 (max_file_bytes); "
            "split it"
        )


def test_a_long_way_up_and_an_allowed_file_are_no_way_out(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("allowed by itself")
    with pytest.raises(InvalidInput):
        read_files(Folders((file,)).to_read_all("a.txt", FORMATS), [], whole=False, max_bytes=LIMIT)


PIECES = ["..", ".", "", "a.txt", "link", "loop", "sub", "up.txt", "~", "*", "**", "[a]", "\\", "/"]
paths = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from([*PIECES, "proc", "self", "root", "etc", "C:"]), max_size=8).map(
        "/".join
    ),
    st.lists(st.sampled_from(PIECES), max_size=6).map(lambda parts: "/" + "/".join(parts) + ".txt"),
)
fuzzed = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@fuzzed
@given(path=paths)
def test_no_path_reads_anything_outside(places: tuple[Path, Path], path: str) -> None:
    inside, outside = places
    for name, target in {"link": outside, "loop": inside, "up.txt": outside / "a.txt"}.items():
        if not (inside / name).is_symlink():
            (inside / name).symlink_to(target)
    try:
        found = Folders((inside,)).to_read_all(path, FORMATS)
        texts = read_files(found, [], whole=True, max_bytes=LIMIT)
    except InvalidInput as error:
        assert SECRET not in str(error)
    else:
        assert {row.text for row in texts.rows} == {"harmless"}


@fuzzed
@given(path=paths)
def test_no_path_writes_anything_outside(places: tuple[Path, Path], path: str) -> None:
    inside, outside = places
    try:
        target = Folders((inside,)).to_write(path, FORMATS, argument="output_path")
        write_new(target, lambda file: file.write(b"harmless"))
    except InvalidInput:
        pass
    assert sorted(one.name for one in inside.parent.iterdir()) == ["inside", "outside"]
    assert (outside / "a.txt").read_text() == SECRET and len(list(outside.iterdir())) == 1


SAMPLES = {
    ".csv": b'id,text\n1,"a\nb"\n2,c\n',
    ".jsonl": b'{"id": 1, "text": "a"}\n"b"\n',
    ".html": b"<title>t</title><p>a<b>b</p><table><td>c",
    ".pdf": pdf(["a blue shirt", "red"]),
    ".docx": docx(paragraph("a", "b") + paragraph("c")),
    ".parquet": parquet(id=[1, 2], text=["a", "b"]),
}


@settings(fuzzed, max_examples=400)
@given(data=st.data())
def test_no_content_gives_anything_but_texts_or_a_clear_refusal(
    tmp_path: Path, data: st.DataObject
) -> None:
    ending = data.draw(st.sampled_from(sorted(SAMPLES)))
    content = bytearray(SAMPLES[ending])
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    (tmp_path / f"a{ending}").write_bytes(content)
    found = Folders((tmp_path,)).to_read_all(f"a{ending}", FORMATS)
    try:
        texts = read_files(found, [], whole=False, max_bytes=LIMIT)
    except InvalidInput as error:
        assert f"a{ending}" in str(error)
    else:
        assert all("\0" not in row.text for row in texts.rows)
