"""What becomes of documents that another process reads, whatever it answers. Docling is not run."""

import importlib.util
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

import pytest

from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.tools.readers import docling
from sie_mcp.tools.readers.formats import FORMATS, formats_for
from sie_mcp.tools.readers.rows import Request
from tests.tools.conftest import Toolbox

LIMIT = 10_000
MEMORY = 256 * 1024**2


def slides(*texts: str) -> bytes:
    """An archive that begins as one of Office does."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, text in enumerate(texts):
            archive.writestr(f"{number}.xml", text)
    return out.getvalue()


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("docling", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def answering(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(docling, "COMMAND", (sys.executable, "-S", "-c", code))


def read(content: bytes, name: str = "a.pptx", *, whole: bool = False) -> Sequence[tuple[str, str]]:
    rows = docling.read(io.BytesIO(content), Request(name, [], whole, LIMIT), memory_bytes=MEMORY)
    return [(row.text, row.place) for row in rows]


def test_the_process_is_told_the_ending_the_limits_and_the_document(monkeypatch) -> None:
    code = "import json,sys; print(json.dumps({'pages': [*sys.argv[1:], sys.stdin.read(2)]}))"
    answering(monkeypatch, code)
    rows = read(slides("a"), "deck.PPTX")
    assert rows == [
        (".pptx", "page 1"), ("1000", "page 2"), ("10000", "page 3"), ("300.0", "page 4"),
        ("268435456", "page 5"), ("PK", "page 6"),
    ]  # fmt: skip


def test_paragraphs_are_texts_or_one(monkeypatch) -> None:
    answering(monkeypatch, f"print({json.dumps(json.dumps({'paragraphs': ['One', ' ', 'Two']}))})")
    assert read(b"<p>", "a.html") == [("One", "paragraph 1"), ("Two", "paragraph 2")]
    assert read(b"<p>", "a.html", whole=True) == [("One\n\nTwo", "paragraph 1")]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ('print(\'{"error": "has 2,000 pages"}\')', "a.pptx has 2,000 pages"),
        ('print(\'{"pages": ["", " "]}\')', "a.pptx has no text on any page"),
        (
            "raise ValueError('no such part')",
            "ended with 1 .ValueError: no such part.*save it anew",
        ),
        ("import os; os._exit(9)", "ended with 9 .it says nothing"),
    ],
)
def test_what_cannot_be_read_is_said(monkeypatch, code, says) -> None:
    answering(monkeypatch, code)
    with pytest.raises(InvalidInput, match=says):
        read(slides("a"))


def test_a_process_that_takes_too_long_is_ended(monkeypatch) -> None:
    answering(monkeypatch, "import threading; threading.Event().wait()")
    monkeypatch.setattr(docling, "MAX_S", 0.2)
    with pytest.raises(InvalidInput, match="more than 0 s, the limit; split it"):
        read(slides("a"))


@pytest.mark.skipif(sys.platform != "linux", reason="it counts other memory, or none")
@pytest.mark.parametrize("num_bytes", [0, 10 * MEMORY])
def test_a_process_that_takes_too_much_memory_is_refused_it(monkeypatch, num_bytes: int) -> None:
    answering(
        monkeypatch,
        "import sys; from sie_mcp.tools.readers.docling_process import limit_memory;"
        f"limit_memory(int(sys.argv[5])); bytearray({num_bytes});"
        'print(\'{"pages": ["enough"]}\')',
    )
    if not num_bytes:
        assert read(slides("a")) == [("enough", "page 1")]
        return
    with pytest.raises(InputTooLong, match=r"more than 268,435,456 bytes.*document_memory_bytes"):
        read(slides("a"))


@pytest.mark.parametrize(
    "words", ["terminate called: std::bad_alloc", "memory allocation of 9 bytes failed"]
)
def test_other_languages_words_for_no_memory_are_known(monkeypatch, words: str) -> None:
    answering(
        monkeypatch, f"import os,sys; print({words!r}, file=sys.stderr, flush=True); os.abort()"
    )
    with pytest.raises(InputTooLong, match="split it"):
        read(slides("a"))


def test_an_archive_of_too_much_or_of_nothing_starts_no_process(monkeypatch) -> None:
    monkeypatch.setattr(docling, "COMMAND", ("/no such program",))
    with pytest.raises(InvalidInput, match=r"more than 10,000 bytes unpacked"):
        read(slides("x" * 6_000, "y" * 6_000))
    with pytest.raises(InvalidInput, match="no readable document"):
        read(b"PK\x03\x04 and nothing")


def test_without_docling_it_is_said_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'sie-mcp\[docling\]'"):
        read(slides("a"))


def test_only_the_setting_gives_other_documents_to_docling() -> None:
    assert {one for one, form in FORMATS.items() if form.module == "docling"} == {".pptx", ".xlsx"}
    chosen = {one for one, form in formats_for("docling").items() if form.module == "docling"}
    assert chosen == {".pdf", ".docx", ".html", ".htm", ".pptx", ".xlsx"}
    assert formats_for("docling").keys() == FORMATS.keys() and formats_for("own") == FORMATS
    assert formats_for("own", 7)[".pptx"].memory_bytes == 7


@pytest.mark.anyio
async def test_a_tool_reads_by_the_setting(toolbox: Toolbox, monkeypatch) -> None:
    answering(monkeypatch, 'print(\'{"paragraphs": ["From Docling"]}\')')
    toolbox.write("a.html", "<p>Our own</p>")
    await toolbox.call("embed", path="a.html")
    toolbox.settings = {"document_reader": "docling", "document_memory_bytes": 2**30}
    await toolbox.call("embed", path="a.html")
    seen = [texts for _, _, texts in toolbox.worker.calls]
    assert seen == [["Our own"], ["From Docling"]]
