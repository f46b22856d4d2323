"""Documents that Docling itself reads: `make docling` runs these, in a venv of its own."""

import importlib
import io
from typing import Any

import pytest

pytest.importorskip("docling.backend.msword_backend", reason="pip install 'sie-mcp[docling]'")

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers import docling
from sie_mcp.tools.readers.docling_process import texts_of
from sie_mcp.tools.readers.rows import Request
from tests.tools.documents import pdf

TABLE = "| item   |   price |\n|--------|---------|\n| cup    |       3 |"


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def word() -> bytes:
    document = importlib.import_module("docx").Document()
    document.add_heading("The title", 1)
    document.add_paragraph("A first_name.")
    table = document.add_table(2, 2)
    for place, text in enumerate(("item", "price", "cup", "3")):
        table.cell(place // 2, place % 2).text = text
    return saved(document)


def slides() -> bytes:
    deck = importlib.import_module("pptx").Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = f"Body {number}"
    return saved(deck)


def sheets() -> bytes:
    book = importlib.import_module("openpyxl").Workbook()
    for row in (["item", "price"], ["cup", 3]):
        book.active.append(row)
    book.create_sheet("two").append(["x", "y"])
    return saved(book)


def texts(data: bytes, ending: str, **more: Any) -> Any:
    limits = {"max_pages": 10, "max_bytes": 10_000, "limit_s": 60.0}
    return texts_of(data, ending, **{**limits, **more})


def native() -> Any:
    """Docling's pipeline for PDFs that needs no model."""
    options = importlib.import_module("docling.datamodel.pipeline_options")
    module = importlib.import_module("docling.pipeline.native_pdf_pipeline")
    return module.NativePdfPipeline(options.NativePdfPipelineOptions())


def test_word_is_paragraphs_and_tables_in_markdown() -> None:
    assert texts(word(), ".docx") == {"paragraphs": ["The title", "A first_name.", TABLE]}


def test_slides_are_pages() -> None:
    assert texts(slides(), ".pptx") == {"pages": ["# Slide 1\n\n- Body 1", "# Slide 2\n\n- Body 2"]}


def test_sheets_are_pages_of_tables() -> None:
    first, second = texts(sheets(), ".xlsx")["pages"]
    assert first == TABLE and second.startswith("| x   | y   |")


def test_html_is_paragraphs_and_tables() -> None:
    page = b"<html><body><h1>Head</h1><p>One.</p><table><tr><td>a</td></tr></table></body></html>"
    paragraphs = texts(page, ".html")["paragraphs"]
    assert paragraphs[:2] == ["Head", "One."] and "a" in paragraphs[2]


def test_pages_of_a_pdf_go_through_docling_s_pipeline() -> None:
    answer = texts(pdf(["Page one", "And two"]), ".pdf", pipeline=native())
    assert answer == {"pages": ["Page one", "And two"]}


def test_without_models_a_pdf_says_what_would_work() -> None:
    class Lacking:
        def execute(self, *_: Any, **__: Any) -> Any:
            raise FileNotFoundError("no model.safetensors")

    answer = texts(pdf(["Page"]), ".pdf", pipeline=Lacking())
    assert "no model.safetensors" in answer["error"]
    assert "docling-tools models download" in answer["error"]
    assert "SIE_MCP_DOCUMENT_READER=own" in answer["error"]


@pytest.mark.parametrize(
    ("make", "ending", "limits", "says"),
    [
        (slides, ".pptx", {"max_pages": 1}, "has 2 pages; the limit is 1"),
        (lambda: pdf(["a", "b"]), ".pdf", {"max_pages": 1}, "has 2 pages; the limit is 1"),
        (word, ".docx", {"max_bytes": 20}, "more than 20 characters, the limit"),
        (lambda: b"PK\x03\x04 nothing", ".docx", {}, "no readable document"),
        (lambda: b"%PDF-1.4 nothing", ".pdf", {}, "no readable document"),
    ],
)
def test_limits_and_broken_files_are_said(make, ending, limits, says) -> None:
    assert says in texts(make(), ending, **limits)["error"]


def test_the_process_reads_a_file_as_a_reader_does() -> None:
    rows = list(
        docling.read(
            io.BytesIO(slides()), Request("a.pptx", [], False, 10_000_000), memory_bytes=2**30
        )
    )
    assert [(row.text, row.place) for row in rows] == [
        ("# Slide 1\n\n- Body 1", "page 1"),
        ("# Slide 2\n\n- Body 2", "page 2"),
    ]
    with pytest.raises(InvalidInput, match="no readable document for Docling"):
        list(
            docling.read(
                io.BytesIO(b"%PDF-1.4 no"), Request("a.pdf", [], False, 10_000), memory_bytes=2**30
            )
        )
