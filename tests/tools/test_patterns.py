"""Patterns in `path`: what they match, what they never reach, and how texts say where they are."""

import os
from pathlib import Path

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
FILES = ["a.txt", "b.md", "docs/c.md", "docs/deep/er/d.md", "docs/e.TXT", ".git/x.md", "docs/.y.md"]


@pytest.fixture
def tree(toolbox: Toolbox) -> Toolbox:
    """A folder of files, each with its own name as its text."""
    for name in [*FILES, "docs/f.bin"]:
        (toolbox.folder / name).parent.mkdir(parents=True, exist_ok=True)
        toolbox.write(name, name)
    return toolbox


async def matched(toolbox: Toolbox, path: str) -> list[str]:
    await toolbox.call("embed", path=path)
    return toolbox.worker.calls[-1][2]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", ["a.txt"]),
        ("*", ["a.txt", "b.md"]),
        ("**/*.md", ["b.md", "docs/c.md", "docs/deep/er/d.md"]),
        ("docs/**", ["docs/c.md", "docs/deep/er/d.md", "docs/e.TXT"]),
        ("docs/**/**/d.md", ["docs/deep/er/d.md"]),
        ("**/er/**/*.md", ["docs/deep/er/d.md"]),
        ("./docs/./[ce].*", ["docs/c.md", "docs/e.TXT"]),
        ("do?s/*.md", ["docs/c.md"]),
        (".git/*.md", [".git/x.md"]),
        ("docs/../*.txt", ["a.txt"]),
    ],
)
async def test_a_pattern_matches_as_in_a_shell(
    tree: Toolbox, pattern: str, expected: list[str]
) -> None:
    assert await matched(tree, pattern) == expected


async def test_an_absolute_pattern_inside_is_matched(tree: Toolbox) -> None:
    assert await matched(tree, f"{tree.folder}/docs/*.md") == ["docs/c.md"]


async def test_a_file_with_wildcards_in_its_name_is_that_file(tree: Toolbox) -> None:
    tree.write("[a].txt", "brackets")
    assert await matched(tree, "[a].txt") == ["brackets"]


async def test_each_text_says_its_file_and_line(tree: Toolbox) -> None:
    tree.write("docs/c.md", "one\n\nblue shirt\n")
    answer = await tree.call("rerank", query="blue shirt", path="**/*.md", top_k=1)
    assert answer["results"] == [{"index": 3, "source": "docs/c.md line 3", "score": 1.0}]
    pairs = (await tree.call("embed", path="docs/[c]*.m*"))["pairs"]
    assert pairs == [{"a": 0, "b": 2, "score": 0.0}]
    pairs = (await tree.call("embed", path="docs/*", top_k=1))["pairs"]
    assert {"a_source", "b_source"} <= pairs[0].keys()


async def test_the_same_file_in_two_allowed_folders_is_read_once(tree: Toolbox) -> None:
    tree.more_folders = (tree.folder / "docs",)
    assert await matched(tree, "**/c.md") == ["docs/c.md"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.pdf", "path: '*.pdf' matches no file that can be read; known: .csv, "),
        ("docs/*.bin", "matches no file that can be read"),
        ("no/*.md", "matches no file that can be read"),
        ("../*.txt", "path: '../*.txt' is outside the allowed folders"),
        ("/etc/*.txt", "path: '/etc/*.txt' is outside the allowed folders"),
        ("/**/*.txt", "path: '/**/*.txt' is outside the allowed folders"),
        ("docs/*/../../../*.txt", "is outside the allowed folders"),
        ("docs/*/../*.txt", "has '..' after a wildcard; leave it out"),
    ],
)
async def test_a_pattern_that_matches_nothing_inside_is_refused(
    tree: Toolbox, pattern: str, expected: str
) -> None:
    (tree.folder.parent / "secret.txt").write_text("do not read me")
    assert expected in await tree.error("embed", path=pattern)
    assert tree.worker.calls == []


async def test_a_pattern_follows_no_link_and_opens_no_pipe(tree: Toolbox) -> None:
    secret = tree.folder.parent / "secret.txt"
    secret.write_text("do not read me")
    (tree.folder / "link.txt").symlink_to(secret)
    (tree.folder / "up").symlink_to(tree.folder.parent)
    (tree.folder / "loop").symlink_to(tree.folder)
    os.mkfifo(tree.folder / "pipe.txt")
    assert await matched(tree, "**/*.txt") == ["a.txt"]


async def test_columns_for_files_without_any_are_refused(tree: Toolbox) -> None:
    text = await tree.error("embed", path="**/*.md", columns=["a"])
    assert text == "b.md has no columns; leave `columns` out"


async def test_too_many_files_or_names_are_refused_with_the_limit(
    tree: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.folders.MAX_FILES", 2)
    text = await tree.error("embed", path="**/*.md")
    assert "'**/*.md' matches more than 2 files, the limit; name a folder below" in text
    monkeypatch.setattr("sie_mcp.tools.patterns.MAX_ENTRIES", 3)
    assert "more than 3 names, the limit" in await tree.error("embed", path="**/*.md")


async def test_all_files_together_keep_to_the_limits_of_one(
    tree: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.settings = {"max_file_bytes": 20}
    text = await tree.error("embed", path="**/*.md")
    assert text.startswith("the files up to docs/deep/er/d.md: more than 20 characters of text")
    tree.settings = {}
    monkeypatch.setattr("sie_mcp.tools.sources.MAX_ROWS", 2)
    text = await tree.error("embed", path="**/*.md")
    assert text == "the files up to docs/deep/er/d.md: more than 2 rows, the limit; split it"


async def test_a_folder_that_cannot_be_read_is_passed_over(
    tree: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(folder: Path) -> object:
        if Path(folder).name == "deep":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr("sie_mcp.tools.patterns.os.scandir", refuse)
    assert await matched(tree, "docs/**/*.md") == ["docs/c.md"]
