"""How tools name passages of files, and show as much of their texts as fits."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sie_mcp.tools.index.found import Found
from sie_mcp.tools.index.rows import Known, StoredChunk
from sie_mcp.tools.result import BYTES_PER_TOKEN, Result, estimate_tokens

MAX_SKIPPED = 3
# A shorter beginning of a text says too little.
MIN_TEXT_TOKENS = 30
# What stands around a text in an entry.
_FRAME_TOKENS = 6


class Skipped(Result):
    """Files that hold no text, and why the first of them do not."""

    count: int
    first: list[str]


class Shown(Protocol):
    """An entry that may get a text, or only a text's beginning."""

    text: str | None
    cut: bool | None


def place_of(chunk: StoredChunk, found: Found) -> dict[str, str]:
    """Say where a chunk stands: its path, and its lines, pages or paragraphs."""
    place = f"{chunk.start}-{chunk.end}" if chunk.end != chunk.start else str(chunk.start)
    return {"path": found.files[chunk.path].path.name, f"{chunk.unit}s": place}


def add_texts(entries: Sequence[Shown], texts: Sequence[str], max_tokens: int) -> int:
    """Put as much of the texts into the entries as fits, the first first; count those without."""
    left = max_tokens
    num_bare = 0
    for entry, whole in zip(entries, texts, strict=False):
        text = beginning(whole, left)
        if text:
            entry.text = text
            entry.cut = len(text) < len(whole) or None
            left -= estimate_tokens(text) + text.count("\n") // BYTES_PER_TOKEN + _FRAME_TOKENS
        elif whole:
            num_bare += 1
    return num_bare


def beginning(text: str, max_tokens: int) -> str:
    """Return the text if it fits, or its first lines that do, or nothing."""
    # A line's end is two characters in JSON.
    room = (max_tokens - _FRAME_TOKENS) * BYTES_PER_TOKEN - text.count("\n")
    data = text.encode()
    if len(data) <= room:
        return text
    if room < MIN_TEXT_TOKENS * BYTES_PER_TOKEN:
        return ""
    part = data[:room].decode(errors="ignore")
    return part[: part.rfind("\n")] if "\n" in part[len(part) // 2 :] else part


def snippet(text: str, max_chars: int) -> str:
    """Return a text's beginning in one line."""
    # Of a long text no more is looked at than can be shown, were it all spaces.
    line = " ".join(text[: 10 * max_chars].split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def skipped_files(known: Mapping[str, Known], found: Found) -> Skipped | None:
    """Return which of the files hold no text; None where all do."""
    problems = [known[key].problem for key in found.files if key in known and known[key].problem]
    return Skipped(count=len(problems), first=problems[:MAX_SKIPPED]) if problems else None


def num_incomplete(known: Mapping[str, Known], found: Found) -> int:
    """Count files of which a chunk has no vector."""
    return sum(not (known[key].digest or known[key].problem) for key in found.files if key in known)
