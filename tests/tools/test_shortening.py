"""What `search_files` shows of the passages that it found."""

import pytest

from sie_mcp.tools.shortening import SNIPPET_CHARS
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
QUERY = "Who painted the violet door?"
FACT = "The violet door was painted by Anna in 1931."
NOISE = [f"Sentence {n} talks at length about the weather and the roads." for n in range(12)]
LONG = "It is said that " + "a road and a hill and " * 12 + "a river meet."


async def texts(toolbox: Toolbox, files: dict[str, str], **arguments: object) -> dict[str, str]:
    for name, text in files.items():
        toolbox.write(name, text)
    answer = await toolbox.call("search_files", query=QUERY, max_tokens=3_000, **arguments)
    return {found["path"]: found["text"] for found in answer["results"]}


async def test_of_prose_the_sentences_that_matter_are_shown(toolbox: Toolbox) -> None:
    text = " ".join([*NOISE[:6], FACT, *NOISE[6:]])
    shown = await texts(toolbox, {"a.md": text})
    assert FACT in shown["a.md"]
    assert len(shown["a.md"]) < len(text) / 2


async def test_code_is_shown_whole(toolbox: Toolbox) -> None:
    code = "\n".join(f"violet_door_{n} = paint({n})" for n in range(12))
    assert (await texts(toolbox, {"door.py": code}))["door.py"] == code


async def test_of_a_passage_beside_the_point_only_a_beginning_is_shown(toolbox: Toolbox) -> None:
    shown = await texts(toolbox, {"a.md": f"{FACT} {NOISE[0]}", "b.md": LONG})
    assert shown["a.md"].startswith(FACT)
    assert LONG.startswith(shown["b.md"])
    assert SNIPPET_CHARS / 2 < len(shown["b.md"]) <= SNIPPET_CHARS


async def test_without_reranking_passages_are_shown_whole(toolbox: Toolbox) -> None:
    text = " ".join([*NOISE[:6], FACT, *NOISE[6:]])
    assert (await texts(toolbox, {"a.md": text}, rerank=False))["a.md"] == text


async def test_lines_of_a_paragraph_are_joined_those_of_lists_are_not(toolbox: Toolbox) -> None:
    wrapped = FACT.replace(" was ", "\nwas ")
    shown = await texts(toolbox, {"a.md": f"{wrapped}\n- It is\n- blue.\n", "b.md": LONG})
    assert FACT in shown["a.md"] and "\n" not in shown["a.md"].split(".")[0]
    shown = await texts(toolbox, {"c.md": f"{FACT[:-1]}:\n\n- violet\n- a door\n", "d.md": LONG})
    assert "\n- violet" in shown["c.md"]


async def test_of_long_texts_rerank_sends_what_matters_and_says_so(toolbox: Toolbox) -> None:
    long = " ".join([*NOISE[:6], FACT, *NOISE[6:]])
    documents = [long, FACT, *NOISE]
    answer = await toolbox.call("rerank", query=QUERY, documents=documents, return_text=True)
    shown = {one["index"]: one for one in answer["results"]}
    assert shown[1]["text"] == FACT and "cut" not in shown[1]
    assert FACT in shown[0]["text"] and shown[0]["cut"] and len(shown[0]["text"]) < len(long) / 2
