"""The `taxonomy` argument: a built-in's name, a file of the user's, or a list of paths."""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from sie_mcp.catalogue.taxonomy import (
    BUILT_IN,
    SEPARATOR,
    Node,
    Taxonomy,
    build,
    built_in,
    from_paths,
)
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.readers.delimited import read_table
from sie_mcp.tools.sources import read_text

SUFFIXES = (".txt", ".csv", ".tsv", ".json")
MAX_PATHS = 2_000
_JSON_FORMS = '["A > B", …], [{"id": "1", "path": "A > B"}, …] or {"1": "A > B", …}'


async def find_taxonomy(context: ToolContext, taxonomy: str | Sequence[str]) -> Taxonomy:
    """Return the taxonomy that the argument means.

    Raises:
        InvalidInput: no such name or file, or categories that cannot be used.
    """
    if not isinstance(taxonomy, str):
        if len(taxonomy) > MAX_PATHS:
            raise InvalidInput(
                f"taxonomy has {len(taxonomy):,} paths; the limit is {MAX_PATHS:,} in a call; "
                f"put them in a file ({', '.join(SUFFIXES)})"
            )
        return from_paths(taxonomy)
    if taxonomy.lower() in BUILT_IN:
        return await anyio.to_thread.run_sync(built_in, taxonomy.lower())
    if Path(taxonomy).suffix.lower() not in SUFFIXES:
        raise InvalidInput(
            f"no taxonomy {taxonomy!r}; built in: {', '.join(BUILT_IN)}; "
            f'or a file ({", ".join(SUFFIXES)}), or a list of paths like ["A > B > C"]'
        )
    file = context.folders.to_read(taxonomy, SUFFIXES, argument="taxonomy")
    return await anyio.to_thread.run_sync(_read, file, context.config.max_file_bytes)


def _read(file: AllowedPath, max_bytes: int) -> Taxonomy:
    text = read_text(file, max_bytes)
    suffix = file.ending
    if suffix == ".json":
        return build(file.path.name, _from_json(text, file.path.name))
    if suffix == ".txt":
        return build(file.path.name, _from_lines(text))
    return build(
        file.path.name, _from_table(text, "\t" if suffix == ".tsv" else ",", file.path.name)
    )


def _from_lines(text: str) -> Iterator[Node]:
    """One path a line; blank lines and comments (#) are left out."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield Node(line, f"line {number}")


def _from_table(text: str, delimiter: str, name: str) -> Iterator[Node]:
    """Columns `id` and `path` by their header; without one: id, path, or path alone."""
    rows = read_table(io.StringIO(text, newline=""), delimiter, name)
    first_line, first = next(rows, (0, []))
    header = [cell.strip().casefold() for cell in first]
    if "path" in header:
        path_at, id_at = header.index("path"), header.index("id") if "id" in header else None
    else:
        path_at, id_at = (1, 0) if len(first) > 1 else (0, None)
        yield from _table_node(first_line, first, path_at, id_at)
    for line, cells in rows:
        yield from _table_node(line, cells, path_at, id_at)


def _table_node(line: int, cells: Sequence[str], path_at: int, id_at: int | None) -> Iterator[Node]:
    if not cells:
        return
    if len(cells) <= max(path_at, id_at or 0):
        raise InvalidInput(f"line {line}: {len(cells)} cells; expected id and path")
    yield Node(cells[path_at], f"line {line}", None if id_at is None else cells[id_at].strip())


def _from_json(text: str, name: str) -> Iterator[Node]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error
    if isinstance(data, dict):
        data = [{"id": key, "path": path} for key, path in data.items()]
    if not isinstance(data, list):
        raise InvalidInput(f"{name}: expected {_JSON_FORMS}")
    for number, entry in enumerate(data):
        yield _json_node(entry, f"entry {number}")


def _json_node(entry: Any, where: str) -> Node:
    path, id_ = (entry.get("path"), entry.get("id")) if isinstance(entry, dict) else (entry, None)
    if isinstance(path, list) and all(isinstance(level, str) for level in path):
        path = SEPARATOR.join(path)
    if not isinstance(path, str):
        raise InvalidInput(f"{where}: {json.dumps(entry)[:80]} is no category; use {_JSON_FORMS}")
    return Node(path, where, None if id_ is None else str(id_))
