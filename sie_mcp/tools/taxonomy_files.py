"""The `taxonomy` argument: a built-in's name, a file of the user's, or a list of paths."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from sie_mcp.catalogue.notes import Notes, make_notes
from sie_mcp.catalogue.parents import Child, with_paths
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
from sie_mcp.tools.optional import load
from sie_mcp.tools.sources import read_text
from sie_mcp.tools.taxonomy_tables import from_table

SKOS_SUFFIXES = (".ttl", ".rdf", ".jsonld")
SUFFIXES = (".txt", ".csv", ".tsv", ".json", *SKOS_SUFFIXES)
MAX_PATHS = 2_000
_JSON_FORMS = (
    '["A > B", …], [{"id": "1", "path": "A > B"}, …], {"1": "A > B", …} or '
    '[{"id": "2", "name": "B", "parent": "1"}, …]'
)
_IS_CHILD = {"id", "name"}
_GOOGLE = "# Google_Product_Taxonomy_Version"


async def find_taxonomy(
    context: ToolContext, taxonomy: str | Sequence[str], *, argument: str = "taxonomy"
) -> Taxonomy:
    """Return the taxonomy that the argument means.

    Raises:
        InvalidInput: no such name or file, or categories that cannot be used.
    """
    if not isinstance(taxonomy, str):
        if len(taxonomy) > MAX_PATHS:
            raise InvalidInput(
                f"{argument} has {len(taxonomy):,} paths; the limit is {MAX_PATHS:,} in a call; "
                f"put them in a file ({', '.join(SUFFIXES)})"
            )
        return from_paths(taxonomy, argument)
    if taxonomy.lower() in BUILT_IN:
        return await anyio.to_thread.run_sync(built_in, taxonomy.lower())
    if Path(taxonomy).suffix.lower() not in SUFFIXES:
        raise InvalidInput(
            f"no {argument} {taxonomy!r}; built in: {', '.join(BUILT_IN)}; "
            f'or a file ({", ".join(SUFFIXES)}), or a list of paths like ["A > B > C"]'
        )
    file = context.folders.to_read(taxonomy, SUFFIXES, argument=argument)
    try:
        return await anyio.to_thread.run_sync(_read, file, context.config.max_file_bytes)
    except InvalidInput as error:
        # What says the line does not always say of which file.
        name = "" if file.path.name in str(error) else f"{file.path.name}, "
        raise InvalidInput(f"{name}{error}") from error


def _read(file: AllowedPath, max_bytes: int) -> Taxonomy:
    text, name, suffix = read_text(file, max_bytes), file.path.name, file.ending
    if suffix in SKOS_SUFFIXES:
        children = load("sie_mcp.tools.skos_files").read(text, suffix, name)
        return build(name, with_paths(name, children))
    if suffix == ".json":
        return build(name, _from_json(text, name))
    if suffix == ".txt":
        return build(name, _from_lines(text))
    return build(name, from_table(text, "\t" if suffix == ".tsv" else ",", name))


def _from_lines(text: str) -> Iterator[Node]:
    """One path a line; blank lines and comments (#) are left out.

    Google's own file begins by saying so, and has an id before each path.
    """
    has_ids = text.startswith(_GOOGLE)
    for number, line in enumerate(text.split("\n"), 1):
        where = f"line {number}"
        if not line.strip() or line.startswith("#"):
            continue
        id_, dash, path = line.partition(" - ")
        if has_ids and dash and id_.strip().isdecimal():
            yield Node(path, where, id_.strip())
        else:
            yield Node(line, where)


def _from_json(text: str, name: str) -> Iterator[Node]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error
    if isinstance(data, dict):
        data = [{"id": key, "path": path} for key, path in data.items()]
    if not isinstance(data, list):
        raise InvalidInput(f"{name}: expected {_JSON_FORMS}")
    if data and all(isinstance(entry, dict) and entry.keys() >= _IS_CHILD for entry in data):
        return with_paths(name, map(_child, data, range(len(data))))
    return map(_json_node, data, range(len(data)))


def _child(entry: dict[str, Any], number: int) -> Child:
    where = f"entry {number}"
    id_, name, parent = entry["id"], entry["name"], entry.get("parent")
    if not isinstance(name, str) or not isinstance(id_, str | int):
        raise InvalidInput(f"{where}: {json.dumps(entry)[:80]} needs an id and a name")
    notes = _notes(entry, where)
    return Child(str(id_), name, "" if parent is None else str(parent), where, notes)


def _json_node(entry: Any, number: int) -> Node:
    where = f"entry {number}"
    path, id_ = (entry.get("path"), entry.get("id")) if isinstance(entry, dict) else (entry, None)
    if isinstance(path, list) and all(isinstance(level, str) for level in path):
        path = SEPARATOR.join(path)
    if not isinstance(path, str):
        raise InvalidInput(f"{where}: {json.dumps(entry)[:80]} is no category; use {_JSON_FORMS}")
    notes = _notes(entry if isinstance(entry, dict) else {}, where)
    return Node(path, where, None if id_ is None else str(id_), notes)


def _notes(entry: dict[str, Any], where: str) -> Notes:
    synonyms, examples = entry.get("synonyms") or [], entry.get("examples") or []
    description = entry.get("description") or ""
    if not (isinstance(description, str) and _are_texts(synonyms) and _are_texts(examples)):
        raise InvalidInput(
            f"{where}: synonyms are a list of texts, as examples are, and a description is a text"
        )
    return make_notes(synonyms, description, where, examples)


def _are_texts(value: Any) -> bool:
    listed = [value] if isinstance(value, str) else value
    return isinstance(listed, list) and all(isinstance(one, str) for one in listed)
