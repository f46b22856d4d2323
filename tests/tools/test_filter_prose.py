"""`filter_context` in prose: plain text alone, each piece behind the place it comes from."""

import re

import pytest

from sie_mcp.tools.result import estimate_tokens
from tests.tools.conftest import Toolbox
from tests.tools.test_filter_context import FACT, NOISE, QUERY, document

pytestmark = pytest.mark.anyio
SUMMARY = r"Kept \d+ of 61 sentences, about \d+ of \d+ tokens\."


async def prose(toolbox: Toolbox, **arguments: object) -> str:
    async with toolbox.client() as client:
        result = await client.call_tool(
            "filter_context", {"query": QUERY, "prose": True} | arguments
        )
    assert not result.is_error, result.content
    assert result.structured_content is None
    (block,) = result.content
    return str(block.text)


async def test_pieces_of_a_text_file_are_cited_by_line(toolbox: Toolbox) -> None:
    lines = [*NOISE[:40], FACT, *NOISE[40:]]
    toolbox.write("a.md", "\n".join(lines))
    text = await prose(toolbox, path="a.md", max_tokens=100)
    summary, rest = text.split("\n\n")
    assert re.fullmatch(SUMMARY, summary)
    assert rest.startswith("a.md, lines:\n[")
    cited = re.findall(r"\[(\d+)(?:-(\d+))?\] ([^\[]+)", rest)
    assert any(FACT in piece for _, _, piece in cited)
    for first, last, piece in cited:
        assert piece.strip() == "\n".join(lines[int(first) - 1 : int(last or first)])


async def test_pieces_of_other_texts_are_cited_by_character(toolbox: Toolbox) -> None:
    text = document(40)
    shown = await prose(toolbox, texts=["No.", {"id": "art", "text": text}], max_tokens=60)
    assert "\n\nart, characters:\n[" in shown
    cited = re.findall(r"\[(\d+)-(\d+)\] ([^\[\n]+)", shown.split("art, characters:")[1])
    assert any(FACT in piece for _, _, piece in cited)
    for start, end, piece in cited:
        assert text[int(start) : int(end)] == piece


async def test_several_files_are_cited_by_name(toolbox: Toolbox) -> None:
    toolbox.write("a.txt", f"{FACT}\n" + "\n".join(NOISE[:2]))
    toolbox.write("b.html", f"<p>{FACT}")
    toolbox.write("c.csv", f"id,text\nx,{FACT}\n")
    shown = await prose(toolbox, path="*", max_tokens=120)
    assert "\na.txt, lines:\n[1-3] " in shown
    assert "\nb.html, characters:\n[0-44] " in shown
    assert f"\nc.csv line 2, characters:\n[0-{len(FACT)}] {FACT}" in shown


async def test_a_row_of_one_table_is_named_by_its_id(toolbox: Toolbox) -> None:
    toolbox.write("c.csv", f"id,text\nx,{FACT}\n,{FACT}\n,\n")
    shown = await prose(toolbox, path="c.csv")
    assert "\n\nx, characters:" in shown and "\n\ntext 1, characters:" in shown
    assert "1 rows were blank." in shown


async def test_prose_says_what_limited_it_and_what_failed(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    shown = await prose(toolbox, text=f"{document(3)} That will FAIL.", max_tokens=1_000)
    assert "The server's limit is 75 tokens." in shown
    assert 'Not judged: {"count": 1, "first": [{"index": 0, "error": ' in shown


async def test_prose_costs_no_more_than_the_structure(toolbox: Toolbox) -> None:
    toolbox.write("a.md", "\n".join([*NOISE[:40], FACT, *NOISE[40:]]))
    structure = await toolbox.call("filter_context", query=QUERY, path="a.md", max_tokens=300)
    shown = await prose(toolbox, path="a.md", max_tokens=300)
    assert estimate_tokens(shown) < estimate_tokens(str(structure))
