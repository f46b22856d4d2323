"""Turns one document on standard input into texts on standard output, as one line of JSON.

Run as a process of its own by the reader beside it; imports Docling, which takes seconds.
"""

import importlib
import importlib.util
import io
import json
import sys
from typing import Any

# Docling's names of the format, its backend and its class.
_BACKENDS = {
    ".docx": ("DOCX", "msword_backend", "MsWordDocumentBackend"),
    ".pptx": ("PPTX", "mspowerpoint_backend", "MsPowerpointDocumentBackend"),
    ".xlsx": ("XLSX", "msexcel_backend", "MsExcelDocumentBackend"),
    ".html": ("HTML", "html_backend", "HTMLDocumentBackend"),
    ".htm": ("HTML", "html_backend", "HTMLDocumentBackend"),
    ".pdf": ("PDF", "docling_parse_backend", "ThreadedDoclingParseDocumentBackend"),
}
NO_MODELS = (
    "needs Docling's models for layout, tables and OCR, which are not here ({reason:.200}): pip "
    "install docling, run docling-tools models download, and set DOCLING_ARTIFACTS_PATH to their "
    "folder; or set SIE_MCP_DOCUMENT_READER=own, which reads a PDF's own text"
)
_MARKDOWN = {"escape_underscores": False, "image_placeholder": ""}


def texts_of(
    data: bytes, ending: str, max_pages: int, max_bytes: int, limit_s: float, pipeline: Any = None
) -> dict[str, list[str] | str]:
    """Return the texts of "pages" or "paragraphs", or the "error" that goes behind a file's name.

    Args:
        data: The document.
        ending: Of its name; says what it is.
        max_pages: How many it may have.
        max_bytes: How many characters of text.
        limit_s: How long a PDF may take; what is read until then is not returned.
        pipeline: Docling's for PDFs; None: the standard one.
    """
    base = importlib.import_module("docling.datamodel.base_models")
    documents = importlib.import_module("docling.datamodel.document")
    limits = importlib.import_module("docling.datamodel.settings").DocumentLimits
    name, module, kind = _BACKENDS[ending]
    found = documents.InputDocument(
        path_or_stream=io.BytesIO(data),
        format=base.InputFormat[name],
        backend=getattr(importlib.import_module(f"docling.backend.{module}"), kind),
        filename=f"document{ending}",
        limits=limits(),
    )
    if not found.valid:
        return {"error": "is no readable document for Docling; save it anew, or give its text"}
    if found.page_count > max_pages:
        return {"error": f"has {found.page_count:,} pages; the limit is {max_pages:,}; split it"}
    if ending == ".pdf":
        try:
            document = (pipeline or _standard(limit_s)).execute(found, raises_on_error=True)
        except (ImportError, OSError) as error:
            return {"error": NO_MODELS.format(reason=str(error))}
        if document.errors:
            return {"error": f"cannot be read whole ({document.errors[0].error_message:.200})"}
        document = document.document
    else:
        document = found._backend.convert()
    answer = _texts(document)
    if sum(len(text) for texts in answer.values() for text in texts) > max_bytes:
        return {"error": f"holds more than {max_bytes:,} characters, the limit; split it"}
    return answer


def _standard(limit_s: float) -> Any:
    options = importlib.import_module("docling.datamodel.pipeline_options")
    module = importlib.import_module("docling.pipeline.standard_pdf_pipeline")
    return module.StandardPdfPipeline(options.PdfPipelineOptions(document_timeout=limit_s))


def _texts(document: Any) -> dict[str, list[str] | str]:
    """Return each page in Markdown, or each paragraph, tables in Markdown."""
    if document.pages:
        last = max(document.pages)
        pages = [document.export_to_markdown(page_no=n, **_MARKDOWN) for n in range(1, last + 1)]
        return {"pages": pages}
    types = importlib.import_module("docling_core.types.doc")
    paragraphs = []
    for item, _ in document.iterate_items():
        if isinstance(item, types.TableItem):
            paragraphs.append(item.export_to_markdown(document))
        elif isinstance(item, types.TextItem):
            paragraphs.append(item.text)
    return {"paragraphs": paragraphs}


def limit_memory(limit_bytes: int) -> None:
    """Take no more than this; what asks for more then fails. Windows has no such limit.

    Counted is what the process may write to, as allocations are, and not the libraries' files: on
    Linux, where the whole address space says nothing, as threads reserve much and use little.
    """
    if importlib.util.find_spec("resource") is None:
        return
    resource = importlib.import_module("resource")
    kind = resource.RLIMIT_DATA
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        limit_bytes = min(limit_bytes, most)
    resource.setrlimit(kind, (limit_bytes, limit_bytes))


def main(arguments: list[str]) -> None:
    """Read the document and write its texts; what Docling prints does not get between."""
    out, sys.stdout = sys.stdout, sys.stderr
    ending, max_pages, max_bytes, limit_s, memory_bytes = arguments
    limit_memory(int(memory_bytes))
    data = sys.stdin.buffer.read()
    answer = texts_of(data, ending, int(max_pages), int(max_bytes), float(limit_s))
    out.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
