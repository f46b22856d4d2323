"""What is read of each file format, and what is said of files that are not as they should be."""

import codecs
import datetime
import gzip
import io
import json
import sys
import tracemalloc
import zipfile

import pypdf
import pytest

from sie_mcp.tools.optional import load
from sie_mcp.tools.readers.formats import FORMATS
from sie_mcp.tools.readers.rows import Request
from tests.tools.conftest import Toolbox
from tests.tools.documents import docx, paragraph, parquet, pdf

pytestmark = pytest.mark.anyio


async def texts_of(toolbox: Toolbox, name: str, content: str | bytes, **more: object) -> list[str]:
    """Write a file, embed it, and return the texts that the worker saw."""
    toolbox.write(name, content)
    await toolbox.call("embed", path=name, **more)
    return toolbox.worker.calls[-1][2]


async def whole_text(toolbox: Toolbox, name: str, content: str | bytes) -> list[str]:
    """Write a file, read it as one text, and return what the worker saw."""
    toolbox.write(name, content)
    await toolbox.call("extract_entities", path=name)
    return toolbox.worker.calls[-1][2]


PAGE = """<!doctype html><html><head><title>The  title</title><style>p {}</style></head>
<body><h1>Shirts</h1><p>Blue &amp; soft,
 <b>very</b> soft.<br>New.</p><script>alert(1)</script><div>Outer<div>inner</div>tail</div>
<table><tr><td>a</td><td>b</td></tr></table>
<ul><li>one<li>two</ul><!-- not shown --></body></html>"""
PARAGRAPHS = [
    "The title",
    "Shirts",
    "Blue & soft, very soft.",
    "New.",
    "Outer",
    "inner",
    "tail",
    "a b",
    "one",
    "two",
]


async def test_a_page_is_what_a_browser_shows(toolbox: Toolbox) -> None:
    assert await texts_of(toolbox, "a.html", PAGE) == PARAGRAPHS
    assert await whole_text(toolbox, "b.htm", PAGE) == ["\n\n".join(PARAGRAPHS)]


async def test_a_page_is_read_as_deep_as_pages_go_and_refused_beyond(toolbox: Toolbox) -> None:
    deep = "<div><b>" * 1_000 + "deep" + "</b></div>" * 1_000
    assert await texts_of(toolbox, "a.html", deep) == ["deep"]
    assert await texts_of(toolbox, "p.html", "<p>a<li>b</div><br>" * 3_000) == ["a", "b"]
    toolbox.write("b.html", "<p><a><div></x>" * 500_000)
    text = await toolbox.error("embed", path="b.html")
    assert text.startswith("b.html: more than 2,000 elements are open at once (the last is <a>)")


async def test_a_page_without_text_is_refused(toolbox: Toolbox) -> None:
    toolbox.write("a.html", "<script>x</script>")
    for tool in ("embed", "extract_entities"):
        assert await toolbox.error(tool, path="a.html") == "a.html holds no text"


@pytest.mark.parametrize("compressed", [False, True])
async def test_each_page_of_a_pdf_is_a_text_that_knows_its_page(
    toolbox: Toolbox, compressed: bool
) -> None:
    content = pdf(["a blue shirt", "", "red shoes"], compressed=compressed)
    assert await texts_of(toolbox, "a.pdf", content) == ["a blue shirt", "red shoes"]
    answer = await toolbox.call("rerank", query="red shoes", path="a.pdf")
    assert answer["results"][0] == {"index": 2, "source": "a.pdf page 3", "score": 1.0}
    assert answer["blank_rows"] == 1
    answer = await toolbox.call("filter_context", query="red shoes", path="a.pdf")
    assert [kept["source"] for kept in answer["results"]] == ["a.pdf page 1", "a.pdf page 3"]


async def test_a_word_document_is_read_in_paragraphs(toolbox: Toolbox) -> None:
    body = (
        paragraph("A blue", " shirt &amp; more")
        + "<w:p/>"
        + f"<w:tbl><w:tr><w:tc>{paragraph('cell')}</w:tc></w:tr></w:tbl>"
        + "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t>"
        + "<w:instrText>HYPERLINK</w:instrText></w:r></w:p>"
    )
    texts = ["A blue shirt & more", "cell", "a\tb"]
    assert await texts_of(toolbox, "a.docx", docx(body)) == texts
    assert await whole_text(toolbox, "b.docx", docx(body)) == ["\n\n".join(texts)]


async def test_columns_of_parquet_are_joined_and_rows_counted(toolbox: Toolbox) -> None:
    content = parquet(
        id=[7, 8, 9],
        title=["blue shirt", None, "hat"],
        price=[1.5, 2.0, None],
        day=[datetime.date(2026, 1, 2)] * 3,
    )
    toolbox.write("a.parquet", content)
    answer = await toolbox.call("rerank", query="hat", path="a.parquet", columns="Title")
    assert answer["results"][0] == {"index": 2, "id": "9", "score": 1.0}
    assert answer["blank_rows"] == 1
    assert await texts_of(toolbox, "a.parquet", content, columns=["title", "price", "day"]) == [
        "blue shirt. 1.5. 2026-01-02",
        "2.0. 2026-01-02",
        "hat. 2026-01-02",
    ]


async def test_a_compressed_table_is_read_like_a_plain_one(toolbox: Toolbox) -> None:
    assert await texts_of(toolbox, "a.csv.gz", gzip.compress(b"id,title\n1,x\n")) == ["x"]
    assert await texts_of(toolbox, "a.tsv.gz", gzip.compress(b"id\ttitle\n1\ty\n")) == ["y"]
    assert await texts_of(toolbox, "a.jsonl.gz", gzip.compress(b'{"text": "z"}\n')) == ["z"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
async def test_a_byte_order_mark_says_the_encoding(toolbox: Toolbox, encoding: str) -> None:
    marks = {
        "utf-8": codecs.BOM_UTF8,
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
    }
    text = "Größe 😀 " * 20_000
    content = marks[encoding] + f"title\n{text}\n".encode(encoding)
    assert await texts_of(toolbox, "a.csv", content) == [text.strip()]


async def test_a_column_found_late_must_not_change_what_was_read(toolbox: Toolbox) -> None:
    lines = '{"id": 1}\n{"id": 2, "a": "x"}\n'
    assert await texts_of(toolbox, "late.jsonl", lines) == ["x"]
    toolbox.write("two.jsonl", '{"a": "x"}\n{"a": "y", "b": "z"}\n')
    text = await toolbox.error("embed", path="two.jsonl")
    assert text == "two.jsonl: say which `columns` to read; there are a, b"
    toolbox.write("text.jsonl", '{"a": "x"}\n{"text": "z"}\n')
    assert "say which `columns`" in await toolbox.error("embed", path="text.jsonl")


async def test_many_columns_are_not_all_named_in_an_error(toolbox: Toolbox) -> None:
    toolbox.write("wide.csv", ",".join(f"c{n}" for n in range(400)) + "\n")
    text = await toolbox.error("embed", path="wide.csv")
    assert text.endswith("c48, c49 and 350 more")


def zip_bomb() -> bytes:
    return docx(paragraph(" " * 3_000_000))


def parquet_bomb() -> bytes:
    return parquet(text=["x" * 100_000] * 2_000)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;">]>'
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "empty.pdf": (b"", "empty.pdf is empty (0 bytes)"),
    "text.pdf": ("just text", "text.pdf is no .pdf file: it begins like b'just tex'"),
    "image.txt": (b"\x89PNG\r\n\x1a\n", "image.txt is no .txt file: it begins like an image"),
    "zip.csv": (docx(""), "zip.csv is no .csv file: it begins like a ZIP archive"),
    "null.txt": (b"a\0b", "null.txt is not a text: it holds a null byte near byte 1"),
    "utf16.txt": ("ab".encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8"),
    "latin.html": ("<p>Größe".encode("latin-1"), "latin.html is not UTF-8 (byte 0xf6 at 5); conv"),
    "cut.md": ("Größe".encode()[:3], "cut.md is not UTF-8 (byte 0xc3 at 2)"),
    "odd.txt": (codecs.BOM_UTF16_LE + b"a", "odd.txt is not UTF-16-LE"),
    "broken.pdf": (pdf(["a"])[:200], "broken.pdf is no readable PDF"),
    "scan.pdf": (pdf(["", ""]), "scan.pdf has no text on any page; it may be scanned"),
    "cut.docx": (docx(paragraph("a"))[:60], "cut.docx is no readable Word document"),
    "other.docx": (docx("", part="xl/workbook.xml"), "other.docx is no Word document: it has no"),
    "doctype.docx": (docx("", before=ENTITIES), "holds a document type declaration"),
    "xml.docx": (docx("</w:p>"), "xml.docx is no readable Word document (mismatched tag"),
    "bomb.docx": (zip_bomb(), "bomb.docx holds more than 1,000,000 bytes unpacked, the limit"),
    "bomb.txt.gz": (gzip.compress(b"a" * 3_000_000), "bomb.txt.gz holds more than 1,000,000 bytes"),
    "bomb.parquet": (parquet_bomb(), "bomb.parquet: more than 1,000,000 characters of text, the"),
    "cut.csv.gz": (gzip.compress(b"text\na\n", mtime=0)[:-9], "cut.csv.gz is no whole gzip file"),
    "sum.csv.gz": (
        gzip.compress(b"text\na\n", mtime=0)[:-8] + b"x" * 8,
        "sum.csv.gz is no whole gzip file",
    ),
    "cut.parquet": (parquet(text=["a"])[:40], "cut.parquet is no readable Parquet file"),
    "list.parquet": (parquet(text=[[["a"]]]), "the column 'text' holds list<"),
    "object.parquet": (parquet(text=[{"a": "b"}]), "the column 'text' holds struct<"),
    "list-bomb.parquet": (
        parquet(text=[["x" * 100_000] * 200]),
        "list-bomb.parquet holds more than 1,000,000 bytes unpacked, the limit (max_file_bytes)",
    ),
    "bytes.parquet": (parquet(text=[b"a"]), "the column 'text' holds binary, no texts; name"),
    "none.parquet": (parquet(a=["x"], b=["y"]), "say which `columns` to read; there are a, b"),
    "rows.parquet": (parquet(text=["a"] * 10_001), "rows.parquet: more than 10,000 rows, the lim"),
    "none.docx": (docx("<w:p/>"), "none.docx holds no text"),
    "twice.csv": ("text,n,text\na,1,b\n", "twice.csv: 2 columns are named 'text'; rename them"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_file_that_is_not_what_it_seems_is_refused_with_the_reason(
    toolbox: Toolbox, name: str
) -> None:
    content, expected = HOSTILE[name]
    toolbox.write(name, content)
    toolbox.settings = {"max_file_bytes": 1_000_000}
    text = await toolbox.error("embed", path=name)
    assert expected in text
    assert toolbox.worker.calls == []


async def test_a_declared_size_over_the_limit_is_refused_before_it_is_unpacked(
    toolbox: Toolbox,
) -> None:
    words = [f"{n:099d}" for n in range(9_000)]
    toolbox.write("big.parquet", parquet(text=words))
    toolbox.settings = {"max_file_bytes": 500_000}
    text = await toolbox.error("embed", path="big.parquet")
    assert text.startswith("big.parquet holds more than 500,000 bytes unpacked, the limit (max_fi")


async def test_an_encrypted_document_is_refused_with_what_to_do(toolbox: Toolbox) -> None:
    out = io.BytesIO(docx(paragraph("a")))
    data = bytearray(out.getvalue())
    with zipfile.ZipFile(out) as archive:
        assert archive.infolist()[0].flag_bits == 0
    data[6] |= 1  # the flag in the entry itself
    central = data.find(b"PK\x01\x02")
    data[central + 8] |= 1
    toolbox.write("secret.docx", bytes(data))
    text = await toolbox.error("embed", path="secret.docx")
    assert text == "secret.docx is encrypted; save it without a password"


async def test_an_encrypted_pdf_is_refused_with_what_to_do(toolbox: Toolbox) -> None:
    writer = pypdf.PdfWriter(io.BytesIO(pdf(["a"])))
    writer.encrypt("secret", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    toolbox.write("a.pdf", out.getvalue())
    text = await toolbox.error("embed", path="a.pdf")
    assert text == "a.pdf is encrypted; save it without a password"


async def test_a_missing_library_is_named_with_the_command_that_installs_it(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolbox.write("a.parquet", parquet(text=["a"]))
    for module in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "sie_mcp.tools.readers.parquet", raising=False)
    monkeypatch.delitem(sys.modules, "sie_mcp.tools.parquet_files", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    expected = (
        "this needs pyarrow, which is not installed beside the server; run: "
        "pip install 'sie-mcp[parquet]'"
    )
    assert await toolbox.error("embed", path="a.parquet") == expected
    assert await toolbox.error("embed", texts=["a"], output_path="b.parquet") == expected
    assert toolbox.worker.calls == []


def test_a_module_of_ours_that_is_missing_is_no_missing_library() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"readers\.nothing"):
        load("sie_mcp.tools.readers.nothing")


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".jsonl.gz"])
def test_memory_does_not_grow_with_a_file_of_which_little_is_wanted(ending: str) -> None:
    noise = "n" * 10_000
    rows = range(2_000)
    if ending == ".csv":
        content = "text,noise\n" + "".join(f"t{n},{noise}\n" for n in rows)
    else:
        content = "".join(json.dumps({"text": f"t{n}", "noise": noise}) + "\n" for n in rows)
    file = io.BytesIO(content.encode())
    request = Request(f"a{ending}", ["text"], whole=False, max_bytes=10**9)
    read = FORMATS[ending].read
    tracemalloc.start()
    num_rows = sum(1 for _ in read(file, request))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_rows == 2_000
    assert peak < 1_000_000 < len(content)
