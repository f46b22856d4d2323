"""What is read of a file: columns, lists in them, lines, and content that is refused."""

import json
import re

import pytest

from tests.tools.conftest import Toolbox
from tests.tools.documents import parquet

pytestmark = pytest.mark.anyio


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


async def test_semicolons_and_tabs_between_columns_are_seen(toolbox: Toolbox) -> None:
    table = "id;title;price\n1;Blue, soft;12,50\n"
    assert await texts_of(toolbox, "a.csv", table, columns=["title", "price"]) == [
        "Blue, soft. 12,50"
    ]
    tabs = table.replace(";", "\t")
    assert await texts_of(toolbox, "b.csv", tabs, columns="title") == ["Blue, soft"]
    assert await texts_of(toolbox, "c.csv", "id,title\n1,a;b\n", columns="title") == ["a;b"]
    assert await texts_of(toolbox, "d.csv", "title\na;b\n") == ["a;b"]


async def test_a_copy_has_semicolons_where_the_table_has_them(toolbox: Toolbox) -> None:
    toolbox.write("b.csv", "id;text\n1;one\n2;one\n3;two, three\n")
    answer = await toolbox.call("deduplicate", path="b.csv", output_path="c.csv")
    assert answer["num_kept"] == 2
    assert (toolbox.folder / "c.csv").read_text().split() == ["id;text", "1;one", "3;two,", "three"]


async def test_no_number_is_no_text(toolbox: Toolbox) -> None:
    lines = '{"text": NaN}\n{"text": [NaN, "x"]}\n'
    assert await texts_of(toolbox, "a.jsonl", lines) == ["x"]


async def test_an_error_lists_columns_of_lists_too(toolbox: Toolbox) -> None:
    columns = {"a": ["x"], "b": ["y"], "tags": [["z"]]}
    toolbox.write("a.parquet", parquet(**columns))
    toolbox.write("a.jsonl", json.dumps({name: value[0] for name, value in columns.items()}))
    for name in ("a.parquet", "a.jsonl"):
        text = await toolbox.error("embed", path=name)
        assert text == f"{name}: say which `columns` to read; there are a, b, tags"


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
    "windows.csv": ("text\n“a”".encode("cp1252"), [], "iconv -f WINDOWS-1252 -t UTF-8"),
    "pretty.jsonl": ('{\n "text": "a"}\n', [], "each line is one object: jq -c . writes them so"),
    "array.jsonl": ('[{"text": "a"}]\n', [], "write its entries a line each: jq -c '.[]'"),
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
    text = await toolbox.error("embed", path=name, columns=columns)
    assert toolbox.worker.calls == []
    pattern = re.escape(expected).replace(re.escape(".*"), ".*")
    assert re.search(pattern, text), text
