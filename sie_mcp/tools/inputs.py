"""The arguments that several tools share, and the texts they name: given in the call or in a file.

Limits stand in the schema, and are checked here so that an error can say the index, the size, the
limit and what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import anyio.to_thread
import pydantic
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from sie_mcp import wire
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.readers.formats import FORMATS, formats_for
from sie_mcp.tools.sources import MAX_ROWS, read_files
from sie_mcp.tools.sources import Texts as FileTexts

MAX_TEXTS = 1_000
MAX_COLUMNS = 20
MAX_QUERY_CHARS = 10_000
# What clients show of a report.
MAX_MESSAGE_CHARS = 200


class TextItem(pydantic.BaseModel):
    """A text, with the caller's own id if it has one."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    id: str | None = None
    text: str


def as_item(value: Any) -> Any:
    """Take a text alone for an item without an id."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, dict | TextItem):
        return value
    raise PydanticCustomError(
        "text_item",
        'should be a text or {"id": "…", "text": "…"}, not {kind}',
        {"kind": "null" if value is None else type(value).__name__},
    )


def as_list(value: Any) -> Any:
    """Take one text for a list of one, as models send it, and an empty one for none."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    return value


_TEXT_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"id": {"type": "string"}, "text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    ]
}
Text = Annotated[TextItem, BeforeValidator(as_item), WithJsonSchema(_TEXT_SCHEMA)]
Texts = Annotated[list[Text], Field(json_schema_extra={"maxItems": MAX_TEXTS})]
# The same, described in fewer words.
PlainTexts = Annotated[
    list[Text],
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_TEXTS}),
    Field(description="Texts."),
]
Columns = Annotated[
    list[str],
    BeforeValidator(as_list),
    Field(
        max_length=MAX_COLUMNS,
        description="Columns to join into one text; default: `text`, or the only one.",
    ),
]
Model = Annotated[
    str,
    Field(min_length=1, max_length=1_024, description="Of list_models, or a hub id (org/name)."),
]
Query = Annotated[str, Field(description="What to look for, as a question or in words.")]
Path = Annotated[
    str,
    Field(
        max_length=4_096,
        description="Or a file or pattern (docs/**/*.md): csv, tsv, jsonl, parquet, txt, md, html, "
        "pdf, docx.",
    ),
]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Checked texts, ready to send.

    Attributes:
        items: What goes to the worker.
        indices: Each item's place in the caller's list, or its row in the file, from 0.
        num_blank: Rows of the file that hold no text and are left out.
        sources: Where each item stands in the files; empty if it came in the call.
        shows_sources: Whether an answer names them, as indices alone do not say it.
        images: What names each item's image, "" for none; empty if none was asked for.
    """

    items: list[wire.Item]
    indices: list[int]
    num_blank: int = 0
    sources: Sequence[str] = ()
    shows_sources: bool = False
    images: Sequence[str] = ()

    @property
    def texts(self) -> list[str]:
        """The items' texts."""
        return [item.text or "" for item in self.items]

    def source(self, place: int) -> str | None:
        """Where an item stands, if an answer should say it."""
        return self.sources[place] if self.shows_sources else None


async def read_inputs(
    context: ToolContext,
    texts: Sequence[TextItem],
    path: str,
    columns: Sequence[str],
    *,
    argument: str = "texts",
    whole: bool = False,
    image_column: str = "",
) -> Inputs:
    """Take the texts from the call or from a file, and check them.

    Args:
        context: The tool's context.
        texts: Texts sent in the call.
        path: A file that holds them instead, or a pattern of files.
        columns: Which of the file's columns to read.
        argument: What the tool calls `texts`.
        whole: Whether a text without columns is one text, rather than one a line or paragraph.
        image_column: Which of the file's columns names images.

    Raises:
        InvalidInput: both or neither given, too many, one empty or too long.
    """
    if bool(texts) == bool(path):
        raise InvalidInput(
            f"{argument} is empty; send at least one text, or a file as `path`"
            if not path
            else f"send {argument} or path, not both"
        )
    if not path:
        if columns:
            raise InvalidInput("columns goes with path; leave it out")
        return _inline(texts, argument, context)
    await context.progress(0, 1, f"reading {path}"[:MAX_MESSAGE_CHARS])
    limit_bytes = context.config.max_file_bytes
    read = await anyio.to_thread.run_sync(
        lambda: read_files(
            context.folders.to_read_all(path, FORMATS),
            columns,
            whole=whole,
            max_bytes=limit_bytes,
            formats=formats_for(
                context.config.document_reader, context.config.document_memory_bytes
            ),
            image_column=image_column,
        ),
        abandon_on_cancel=True,
    )
    return _from_files(read, path, context.config.max_item_chars)


def check_query(query: str) -> None:
    """Refuse a query that is blank or longer than a question.

    Raises:
        InvalidInput: as `check_text`.
    """
    check_text(query, "query", MAX_QUERY_CHARS)


def check_text(text: str, where: str, max_chars: int) -> None:
    """Refuse a text that no model could read.

    Raises:
        InvalidInput: blank, too long, or with a lone surrogate.
    """
    if not text or text.isspace():
        raise InvalidInput(f"{where} is empty; send at least one non-space character")
    if len(text) > max_chars:
        raise InvalidInput(
            f"{where} has {len(text):,} characters; the limit is {max_chars:,}; "
            "split it and call again"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{where} holds a lone surrogate at character {error.start}; send valid Unicode"
        ) from error


def _inline(texts: Sequence[TextItem], argument: str, context: ToolContext) -> Inputs:
    if len(texts) > MAX_TEXTS:
        instead = f", or put them in a file ({MAX_ROWS:,} rows)" if context.files_allowed else ""
        raise InvalidInput(
            f"{argument} has {len(texts):,} items; the limit is {MAX_TEXTS:,} in a call; "
            f"send fewer{instead}"
        )
    for index, item in enumerate(texts):
        check_text(item.text, f"{argument}[{index}]", context.config.max_item_chars)
    items = [wire.Item(id=item.id, text=item.text) for item in texts]
    return Inputs(items, list(range(len(items))))


def _from_files(read: FileTexts, path: str, max_chars: int) -> Inputs:
    filled = [index for index, row in enumerate(read.rows) if row.text.strip()]
    if not filled:
        raise InvalidInput(f"{path}: all {len(read.rows):,} rows are empty in these columns")
    sources = [read.source(index) for index in filled]
    rows = [read.rows[index] for index in filled]
    for row, source in zip(rows, sources, strict=True):
        check_text(row.text + (row.id or ""), source, max_chars)
    items = [wire.Item(id=row.id, text=row.text) for row in rows]
    images = [row.image for row in rows] if any(row.image for row in rows) else []
    return Inputs(items, filled, len(read.rows) - len(rows), sources, read.has_places, images)
