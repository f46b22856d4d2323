"""A category tree: read from many forms, checked, known by its content.

Data only: knows no vectors and no model.
"""

import csv
import gzip
import hashlib
import importlib.resources
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sie_mcp.errors import InvalidInput

BUILT_IN = {"shopify": "shopify.en.tsv.gz"}
SEPARATOR = " > "
MAX_NODES = 100_000
MAX_INLINE_NODES = 2_000
MAX_PATH_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Node:
    """One category."""

    id: str
    path: tuple[str, ...]

    @property
    def full_path(self) -> str:
        """The way from the top."""
        return SEPARATOR.join(self.path)

    @property
    def leaf(self) -> str:
        """Its own name."""
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Categories in the order given. `digest` changes exactly when their content does."""

    name: str
    nodes: tuple[Node, ...]
    digest: str


@cache
def built_in(name: str) -> Taxonomy:
    """Return a taxonomy that ships with the package."""
    folder = importlib.resources.files("sie_mcp.catalogue").joinpath("taxonomies")
    text = gzip.decompress(folder.joinpath(BUILT_IN[name]).read_bytes()).decode("utf-8")
    return make_taxonomy(name, _rows(text.splitlines(), "\t"))


def from_paths(name: str, paths: list[str]) -> Taxonomy:
    """Build a taxonomy from paths such as "Home > Kitchen > Knives"; the path is the id.

    Raises:
        InvalidInput: too many, or a bad one.
    """
    if len(paths) > MAX_INLINE_NODES:
        raise InvalidInput(
            f"taxonomy has {len(paths):,} paths, the limit inline is {MAX_INLINE_NODES:,}; "
            "put them in a file and give its path"
        )
    return make_taxonomy(name, ((path, path) for path in paths))


def from_file(path: str, text: str) -> Taxonomy:
    """Build a taxonomy from a file's text: .txt with a path a line, .csv or .tsv with id and path
    (or path alone), .json with a list of paths or of {"id", "path"}.

    Raises:
        InvalidInput: another kind, or content that is no taxonomy.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".txt":
        lines = [line.strip() for line in text.splitlines()]
        return make_taxonomy(path, ((line, line) for line in lines if line and line[0] != "#"))
    if suffix in (".csv", ".tsv"):
        return make_taxonomy(path, _rows(text.splitlines(), "\t" if suffix == ".tsv" else ","))
    if suffix == ".json":
        return make_taxonomy(path, _json_rows(path, text))
    raise InvalidInput(f"{path}: a taxonomy is a .txt, .csv, .tsv or .json file, not {suffix!r}")


def make_taxonomy(name: str, rows: Iterable[tuple[str, str]]) -> Taxonomy:
    """Check (id, path) rows and build the taxonomy.

    Raises:
        InvalidInput: none, too many, an id or path twice, an empty level.
    """
    nodes: list[Node] = []
    ids: set[str] = set()
    paths: set[tuple[str, ...]] = set()
    for number, (node_id, path) in enumerate(rows, 1):
        levels = tuple(level.strip() for level in path.split(">"))
        where = f"{name}: category {number} ({path[:60]!r})"
        if not all(levels):
            raise InvalidInput(f"{where} has an empty level; write levels as 'A > B > C'")
        if len(path) > MAX_PATH_CHARS:
            raise InvalidInput(f"{where} is over {MAX_PATH_CHARS} characters")
        if node_id in ids or levels in paths:
            raise InvalidInput(f"{where} is there twice; ids and paths must be unique")
        if len(nodes) >= MAX_NODES:
            raise InvalidInput(f"{name} has over {MAX_NODES:,} categories; give a part of it")
        ids.add(node_id)
        paths.add(levels)
        nodes.append(Node(node_id, levels))
    if not nodes:
        raise InvalidInput(f"{name} holds no category; write one a line, as 'A > B > C'")
    content = "\n".join(f"{node.id}\t{node.full_path}" for node in nodes)
    digest = hashlib.sha256(content.encode("utf-8")).hexdigest()
    return Taxonomy(name, tuple(nodes), digest)


def _rows(lines: list[str], delimiter: str) -> Iterable[tuple[str, str]]:
    for row in csv.reader(lines, delimiter=delimiter):
        cells = [cell.strip() for cell in row if cell.strip()]
        if not cells or [cell.lower() for cell in cells] in (["id", "path"], ["path"]):
            continue
        yield cells[0], cells[-1]


def _json_rows(name: str, text: str) -> Iterable[tuple[str, str]]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error
    if not isinstance(content, list):
        raise InvalidInput(f"{name} must hold a list of paths or of {{'id', 'path'}}")
    for row in content:
        if isinstance(row, str):
            yield row, row
        elif isinstance(row, dict) and isinstance(row.get("path"), str):
            yield str(row.get("id", row["path"])), row["path"]
        else:
            raise InvalidInput(f"{name}: {str(row)[:60]!r} is neither a path nor {{'id', 'path'}}")
