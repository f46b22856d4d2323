"""What others are to be like: a text of the call, some lines of a file, or a row of a table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.index.chunks import Part, cut
from sie_mcp.tools.index.reading import read_part
from sie_mcp.tools.index.rows import Excluded
from sie_mcp.tools.inputs import check_text

# Each is looked for by itself.
MAX_PASSAGES = 32
_WHOLE = (1, 2**31 - 1)
_LINES = re.compile(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*")


@dataclass(frozen=True, slots=True)
class Given:
    """A text or a row.

    Attributes:
        passages: The text, cut where it is long.
        row: The row's number, from 0.
        besides: Where the text stands itself.
    """

    passages: Sequence[str] = ()
    row: int | None = None
    besides: Excluded | None = None


def read_given(context: ToolContext, text: str, path: str, lines: str, row: int | None) -> Given:
    """Take the text from the call or from a file.

    Raises:
        InvalidInput: none or several are given, it is too long, or no such lines.
    """
    if (bool(text) + bool(path) + (row is not None)) != 1:
        raise InvalidInput("send one of text, path (with lines) and row (with table)")
    if lines and not path:
        raise InvalidInput("lines goes with path; leave it out")
    if row is not None:
        return Given(row=row)
    if text:
        check_text(text, "text", context.config.max_item_chars)
        parts = (Part(number, line) for number, line in enumerate(text.split("\n"), 1))
        return Given(_limited([chunk.text for chunk in cut(parts)], "text"))
    start, end = _range(lines)
    file = context.folders.to_search(path, argument="path")
    if file.path.is_dir():
        raise InvalidInput(f"path: {path!r} is a folder; name a file in it (paths: where to look)")
    chunks = read_part(file, context.config.max_file_bytes, start, end)
    passages = _limited([chunk.embedded for chunk in chunks], f"{path} {lines}".strip())
    return Given(passages, besides=Excluded(str(file.path), start, end))


def _range(lines: str) -> tuple[int, int]:
    if not lines:
        return _WHOLE
    match = _LINES.fullmatch(lines)
    start, end = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= start <= end:
        raise InvalidInput(f"lines: {lines!r} is no range; write it like 12-30, from 1")
    return start, end


def _limited(passages: list[str], what: str) -> list[str]:
    if len(passages) > MAX_PASSAGES:
        raise InvalidInput(
            f"{what} makes {len(passages):,} passages; the limit is {MAX_PASSAGES} of about 1,000 "
            "characters; name fewer lines, or deduplicate the folder"
        )
    return passages
