"""Texts cut into chunks: nothing is lost, nothing is too long, places are right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sie_mcp.tools.index.chunks import MAX_CHARS, Chunk, Part, cut, with_headings
from sie_mcp.tools.index.fusion import fuse


def chunks_of(text: str) -> list[Chunk]:
    return list(cut(Part(number, line) for number, line in enumerate(text.split("\n"), 1)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=1_500)))
def test_every_letter_is_in_a_chunk_that_is_not_too_long(lines: list[str]) -> None:
    chunks = chunks_of("\n".join(lines))
    assert all(len(chunk.text) <= MAX_CHARS for chunk in chunks)
    assert [c for chunk in chunks for c in chunk.text if not c.isspace()] == [
        c for line in lines for c in line if not c.isspace()
    ]
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(starts)
    assert all(chunk.start <= chunk.end <= len(lines) for chunk in chunks)


def test_a_chunk_is_the_lines_it_names() -> None:
    lines = [f"line {n} " + "x" * (n % 70) if n % 9 else "" for n in range(1, 400)]
    for chunk in chunks_of("\n".join(lines)):
        assert chunk.text == "\n".join(lines[chunk.start - 1 : chunk.end])


def test_paragraphs_stay_whole_where_they_can() -> None:
    paragraph = "\n".join(["word " * 12] * 6)
    chunks = chunks_of("\n\n".join([paragraph] * 6))
    assert {chunk.text for chunk in chunks[:-1]} == {f"{paragraph}\n\n{paragraph}"}


def test_a_long_line_is_cut_at_a_space_and_keeps_its_number() -> None:
    chunks = chunks_of("first\n" + "word " * 500)
    assert {chunk.start for chunk in chunks[1:]} == {2}
    assert all(chunk.text.endswith(("word ", "word")) for chunk in chunks[1:])


def test_a_section_is_read_under_its_headings_but_not_what_is_code() -> None:
    body = "\n".join(["text " * 10] * 16)
    text = f"# A\n{body}\n## B\n{body}\n```\n# no heading\n{body}\n```\n# C\n{body}"
    found = list(cut(with_headings(text.split("\n"))))
    headings = {chunk.text.split("\n")[0]: chunk.heading for chunk in found}
    assert headings["# A"] == ""
    assert headings["## B"] == "A"
    assert headings["# C"] == ""
    assert "A > B" in {chunk.heading for chunk in found}
    assert not any("no heading" in chunk.heading for chunk in found)
    assert found[1].embedded.startswith("A\n## B")


@pytest.mark.parametrize(
    ("rankings", "expected"),
    [([["a", "b"], ["b", "a"]], ["a", "b"]), ([["a", "b"], ["b", "c"]], ["b", "a", "c"])],
)
def test_what_stands_high_in_both_rankings_wins(
    rankings: list[list[str]], expected: list[str]
) -> None:
    assert [item for item, _ in fuse(rankings)] == expected
    assert fuse([["a"], ["a"]]) == [("a", pytest.approx(1.0))]
