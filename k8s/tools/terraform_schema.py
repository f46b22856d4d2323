"""Holds Terraform files to the schemas of their providers, without the providers.

The typings of CDK packages name every resource, its arguments, which of them must be given and
which are blocks; Terraform's own `validate` would have to download the providers themselves. What a
value is made of is not looked at.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2

# By the first word of a type's name.
PACKAGES = {
    "aws": "@cdktn/provider-aws",
    "google": "@cdktf/provider-google",
    "helm": "@cdktf/provider-helm",
}
# Terraform's own, in every resource.
META_ARGUMENTS = {"count", "for_each", "depends_on", "provider"}
META_BLOCKS = {"lifecycle", "provisioner", "connection"}
KINDS = ("resource", "data")
_MARK = "__is_block__"

_INTERFACE = re.compile(r"^export interface (\w+)(?: extends [\w.]+)? \{$(.*?)^\}$", re.M | re.S)
_ARGUMENT = re.compile(
    r"/\*\*(?P<doc>(?:(?!\*/).)*)\*/\s*readonly \w+(?P<optional>\??): (?P<type>[^;]+);", re.S
)
_NAME = re.compile(r"\{@link \S+#(\w+) ")
_VERSION = re.compile(r"registry\.terraform\.io/providers/hashicorp/\w+/([\d.]+)/")


@dataclass(frozen=True, slots=True)
class Argument:
    """What a resource takes by one name.

    Attributes:
        of: The name of what it is made of, if that is known.
    """

    is_required: bool
    is_block: bool
    of: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A resource: what it takes, and what parts of it take, by the names of typings."""

    root: str
    parts: dict[str, dict[str, Argument]]
    version: str


class Schemas:
    """Typings below a folder `node_modules`."""

    def __init__(self, modules: Path) -> None:
        self._modules = modules

    @functools.cache  # noqa: B019 (one of these lives as long as the program)
    def of(self, kind: str, name: str) -> Schema | None:
        """Return a resource's schema; None where its provider has none of that name."""
        provider, _, rest = name.partition("_")
        package = self._modules / PACKAGES[provider]
        if not package.is_dir():
            raise FileNotFoundError(f"{package}; `make terraform` fetches it")
        words = rest if kind == "resource" else f"data_{name}"
        path = package / "lib" / words.replace("_", "-") / "index.d.ts"
        return _read(path.read_text("utf-8")) if path.exists() else None


def problems(path: Path, schemas: Schemas) -> list[str]:
    """Return what is wrong in a file, by place."""
    found: list[str] = []
    for kind, name, label, body in blocks(path):
        schema = schemas.of(kind, name)
        place = f"{path.name}: {name}.{label}"
        if schema is None:
            found.append(f"{place}: no {kind} of that name")
        else:
            found += _check(place, body, schema.root, schema)
    return found


def blocks(path: Path) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield every resource and data source: kind, type, name, content."""
    document = hcl2.loads(path.read_text("utf-8"))
    for kind in KINDS:
        for one in document.get(kind, []):
            for name, labelled in _named(one):
                for label, body in _named(labelled):
                    yield kind, name, label, body


def _check(place: str, body: dict[str, Any], part: str, schema: Schema) -> Iterator[str]:
    arguments = schema.parts[part]
    given = dict(_named(body))
    dynamic = {
        name: one["content"] for entry in given.pop("dynamic", []) for name, one in _named(entry)
    }
    for name in arguments.keys() - given.keys() - dynamic.keys():
        if arguments[name].is_required:
            yield f"{place}: {name} is missing"
    for name, value in {**given, **dynamic}.items():
        is_block = isinstance(value, list) and any(_MARK in x for x in value if isinstance(x, dict))
        if name in (META_BLOCKS if is_block else META_ARGUMENTS):
            continue
        argument = arguments.get(name)
        if argument is None:
            yield f"{place}: there is no {name}"
        elif argument.is_block != is_block:
            yield f"{place}: {name} is {'a block' if argument.is_block else 'an argument'}"
        elif argument.of in schema.parts and is_block:
            for one in value:
                yield from _check(f"{place}.{name}", one, argument.of, schema)


def _named(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if not name.startswith("__"):  # What the reader adds: marks and comments.
            yield name.strip('"'), value


def _read(text: str) -> Schema:
    parts = {name: dict(_arguments(body)) for name, body in _INTERFACE.findall(text)}
    root = next(name for name in parts if name.endswith("Config"))
    version = _VERSION.search(text)
    return Schema(root, parts, version[1] if version else "")


def _arguments(body: str) -> Iterator[tuple[str, Argument]]:
    for found in _ARGUMENT.finditer(body):
        if name := _NAME.search(found["doc"]):
            of = re.sub(r"\[\]|cdkt[fn]\.IResolvable|[|\s]", "", found["type"])
            is_block = f"{name[1]} block" in found["doc"]
            yield name[1], Argument(not found["optional"], is_block, of)
