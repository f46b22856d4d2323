"""Taxonomies in .csv and .tsv: paths, or names with parents, by the header."""

import io
import re
from collections.abc import Iterator, Sequence

from sie_mcp.catalogue.notes import NOTHING, Notes, make_notes
from sie_mcp.catalogue.parents import Child, with_paths
from sie_mcp.catalogue.taxonomy import Node
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.delimited import find_delimiter, read_table

_Row = tuple[int, list[str]]
_PARENT = ("parent", "parent_id")
# Names of columns that an error lists.
MAX_NAMED = 10
# What columns are called and categories are not: a first row of these alone is no category.
_NO_CATEGORY = re.compile(
    r"(category|parent|node|product)?[ _-]?(id|name|path)|category|categories|parent"
    r"|level[ _-]?[0-9]+|synonyms|description|examples"
)


def from_table(text: str, delimiter: str, name: str) -> Iterator[Node]:
    """Yield the nodes of a table.

    Columns `id` and `path`, or `id`, `name` and `parent`, by their header; without one: id, path,
    or path alone. Columns `synonyms`, `description` and `examples` are taken too.

    Raises:
        InvalidInput: a row that is too short, or what `with_paths` refuses.
    """
    line = text.lstrip().partition("\n")[0]
    other, _ = find_delimiter(iter([line]), name)
    # Of a list of paths a semicolon can be part of a name.
    if _names_columns(_folded(line.split(other))):
        delimiter = other
    rows = read_table(io.StringIO(text, newline=""), delimiter, name)
    first = next(rows, (0, []))
    header = _folded(first[1])
    parent = next((one for one in _PARENT if one in header), None)
    if "path" in header:
        id_at = header.index("id") if "id" in header else None
        return _nodes(rows, header.index("path"), id_at, header)
    if parent and {"id", "name"} <= set(header):
        places = [header.index(column) for column in ("id", "name", parent)]
        return with_paths(name, (_child(row, places, header) for row in rows))
    if _names_columns(header):
        raise InvalidInput(
            f"{name}: columns {', '.join(header[:MAX_NAMED])} make no tree; it takes path, id and "
            "path, or id, name and parent"
        )
    path_at, id_at = (1, 0) if len(first[1]) > 1 else (0, None)
    return _nodes(_with(first, rows), path_at, id_at)


def _names_columns(cells: Sequence[str]) -> bool:
    """Whether a first row is a header; of categories it would be a strange one."""
    return "id" in cells or bool(cells and all(map(_NO_CATEGORY.fullmatch, cells)))


def _folded(cells: Sequence[str]) -> list[str]:
    return [cell.strip().strip('"').casefold() for cell in cells]


def _with(first: _Row, rows: Iterator[_Row]) -> Iterator[_Row]:
    if first[1]:
        yield first
    yield from rows


def _nodes(
    rows: Iterator[_Row], path_at: int, id_at: int | None, header: Sequence[str] = ()
) -> Iterator[Node]:
    for line, cells in rows:
        _check(line, cells, max(path_at, id_at or 0), "id and path")
        id_ = None if id_at is None else cells[id_at].strip()
        yield Node(cells[path_at], f"line {line}", id_, _notes(line, cells, header))


def _child(row: _Row, places: Sequence[int], header: Sequence[str]) -> Child:
    line, cells = row
    _check(line, cells, max(places), "id, name and parent")
    id_, name, parent = (cells[place].strip() for place in places)
    return Child(id_, name, parent, f"line {line}", _notes(line, cells, header))


def _notes(line: int, cells: Sequence[str], header: Sequence[str]) -> Notes:
    """Read the three columns that may be there; a short row has none."""
    said = dict(zip(header, cells, strict=False))
    synonyms, description, examples = (
        said.get(name, "") for name in ("synonyms", "description", "examples")
    )
    if not (synonyms or description or examples):
        return NOTHING
    return make_notes(synonyms, description, f"line {line}", examples)


def _check(line: int, cells: Sequence[str], last: int, expected: str) -> None:
    if len(cells) <= last:
        raise InvalidInput(f"line {line}: {len(cells)} cells; expected {expected}")
