"""What every reader is asked and yields, and how columns become one text. Knows no format."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from sie_mcp.errors import InvalidInput

COLUMN_JOIN = ". "
ID, TEXT = "id", "text"
# Names of columns that an error lists.
MAX_NAMED = 50
# What ends with such a sign needs none before the next.
_IS_SENTENCE = re.compile(r"[.!?。！？…:;]$")


@dataclass(frozen=True, slots=True)
class Row:
    """One text of a file: where it stands, such as "line 3", and the row's own id if it has one.

    `image` is what its column of images holds, if one was asked for: a path, or the image itself.
    """

    text: str
    place: str = ""
    id: str | None = None
    image: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted of a file.

    Attributes:
        name: What errors call the file.
        columns: What to join into one text; none means a column `text`, or the only one.
        whole: Whether a text without columns is one text, rather than one a line or paragraph.
        max_bytes: How much it may hold unpacked.
        image_column: What names each row's image; "" for none.
    """

    name: str
    columns: Sequence[str]
    whole: bool
    max_bytes: int
    image_column: str = ""


# Yields the texts in order, blank ones too, so that positions are the file's; holds few at once.
Reader = Callable[[BinaryIO, Request], Iterator[Row]]


def choose(columns: Sequence[str], known: Sequence[str], name: str) -> list[str]:
    """Match column names, whatever their case; without any, find the obvious one.

    Raises:
        InvalidInput: no such column, or none that is obvious.
    """
    by_folded = {column.casefold(): column for column in reversed(known)}
    if columns:
        for column in columns:
            if column not in known and column.casefold() not in by_folded:
                raise unknown_column(column, known, name)
        return _once(
            [one if one in known else by_folded[one.casefold()] for one in columns], known, name
        )
    if found := obvious(known):
        return _once(found, known, name)
    raise which_columns(known, name)


def obvious(known: Sequence[str]) -> list[str]:
    """Return the column `text`, or the only one beside `id`; nothing if neither is there."""
    named = [column for column in reversed(known) if column.casefold() == TEXT]
    others = [column for column in known if is_no_id(column)]
    return named[-1:] or (others if len(others) == 1 else [])


def _once(chosen: list[str], known: Sequence[str], name: str) -> list[str]:
    """Return what was chosen.

    Raises:
        InvalidInput: a name that several columns have: all but one of them would be lost.
    """
    for column in chosen:
        if (times := known.count(column)) > 1:
            raise InvalidInput(f"{name}: {times} columns are named {column!r}; rename them")
    return chosen


def choose_for(request: Request, known: Sequence[str]) -> tuple[list[str], str]:
    """Match the columns of texts and the one of images.

    Raises:
        InvalidInput: as `choose`.
    """
    if not request.image_column:
        return choose(request.columns, known, request.name), ""
    (image,) = choose([request.image_column], known, request.name)
    others = known if request.columns else [column for column in known if column != image]
    return choose(request.columns, others, request.name), image


def candidates(known: Mapping[str, bool]) -> list[str]:
    """Return the columns among which one may be obvious, and `id`; True are those of plain values.

    What holds lists or objects is obvious only where nothing else is there, or as `text`.
    """
    plain = [name for name in known if known[name]]
    is_text = any(name.casefold() == TEXT for name in known)
    return plain if not is_text and any(map(is_no_id, plain)) else list(known)


def is_no_id(column: str) -> bool:
    """Whether a column is another than that of the rows' ids."""
    return column.casefold() != ID


def which_columns(known: Sequence[str], name: str) -> InvalidInput:
    """Return the error that no column is the obvious one."""
    return InvalidInput(f"{name}: say which `columns` to read; there are {_listed(known)}")


def unknown_column(column: str, known: Sequence[str], name: str) -> InvalidInput:
    """Return the error that a file has no such column, with the nearest it has."""
    by_folded = {other.casefold(): other for other in reversed(known)}
    near = difflib.get_close_matches(column.casefold(), by_folded, n=1)
    hint = f"; did you mean {by_folded[near[0]]!r}?" if near else ""
    return InvalidInput(f"{name}: no column {column!r}; there are {_listed(known)}{hint}")


def join(cells: Mapping[str, str], chosen: Sequence[str], place: str, image: str = "") -> Row:
    """Make one text of a row's chosen cells; `image` is the column of images, if there is one."""
    parts = [cells.get(column, "").strip() for column in chosen]
    ids = [value for column, value in cells.items() if not is_no_id(column)]
    text = COLUMN_JOIN.join(part for part in parts if part)
    picture = cells.get(image, "").strip() if image else ""
    return Row(text, place, (ids[0] or None) if ids else None, picture)


def is_plain(value: Any) -> bool:
    """Whether a value is one text, or what is written as one."""
    return not isinstance(value, dict | list)


def as_text(value: Any, column: str, where: str) -> str:
    """Write a cell's value as a text: "" for none, the entries of a list one after the other.

    Raises:
        InvalidInput: an object, or a list that holds more than plain values.
    """
    if is_plain(value):
        # NaN, the only value that is not itself, is how many programs write that there is none.
        return "" if value is None or value != value else str(value)
    if isinstance(value, dict) or not all(map(is_plain, value)):
        held = "an object" if isinstance(value, dict) else "a list of lists or objects"
        raise InvalidInput(
            f"{where}: the column {column!r} holds {held}, no text; name another one, or write "
            "what is wanted of it into a column of its own"
        )
    entries = [as_text(one, column, where).strip() for one in value]
    return _in_a_row([entry for entry in entries if entry])


def _in_a_row(entries: Sequence[str]) -> str:
    """Join as columns are, but whole sentences by a space."""
    parts = [one if _IS_SENTENCE.search(one) else one + COLUMN_JOIN[0] for one in entries[:-1]]
    return COLUMN_JOIN[1:].join([*parts, *entries[-1:]])


def too_large(name: str, max_bytes: int) -> InvalidInput:
    """Return the error that a file holds more than it may, once it is unpacked."""
    return InvalidInput(
        f"{name} holds more than {max_bytes:,} bytes unpacked, the limit (max_file_bytes); split it"
    )


def _listed(known: Sequence[str]) -> str:
    more = f" and {len(known) - MAX_NAMED:,} more" if len(known) > MAX_NAMED else ""
    return ", ".join(known[:MAX_NAMED]) + more
