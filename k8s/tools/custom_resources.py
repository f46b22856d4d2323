"""Holds custom resources to their definitions, strictly: a field that nobody knows is an error.

A cluster prunes unknown fields in silence; here a typo is found before it gets there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

Document = dict[str, Any]
Kind = tuple[str, str]

# Words of OpenAPI and of Kubernetes that JSON Schema does not have.
_NOT_SCHEMA = {"nullable", "format", "default", "description", "example"}


def read_definitions(paths: Iterable[Path]) -> dict[Kind, jsonschema.Draft7Validator]:
    """Return a validator for each apiVersion and kind that files of definitions have."""
    return {
        kind: jsonschema.Draft7Validator(schema)
        for path in paths
        for document in yaml.safe_load_all(path.read_text("utf-8"))
        if document and document["kind"] == "CustomResourceDefinition"
        for kind, schema in _versions(document["spec"])
    }


def problems(
    documents: Iterable[Document], definitions: dict[Kind, jsonschema.Draft7Validator]
) -> list[str]:
    """Return what is wrong with documents whose kind is defined."""
    return [
        f"{one['kind']} {one['metadata']['name']} {'/'.join(map(str, error.absolute_path))}: "
        f"{error.message[:160]}"
        for one in documents
        if (one["apiVersion"], one["kind"]) in definitions
        for error in definitions[one["apiVersion"], one["kind"]].iter_errors(one)
    ]


def _versions(spec: Document) -> Iterator[tuple[Kind, Document]]:
    for version in spec["versions"]:
        schema = _strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        yield (f"{spec['group']}/{version['name']}", spec["names"]["kind"]), schema


def _strict(schema: Any) -> Any:
    """Return a schema in which an object has its own properties only."""
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: value
        for name, value in schema.items()
        if name not in _NOT_SCHEMA and not name.startswith("x-kubernetes")
    }
    if schema.get("x-kubernetes-int-or-string"):
        kept.pop("anyOf", None)
        kept["type"] = ["integer", "string"]
    if "properties" in kept:
        kept["properties"] = {name: _strict(one) for name, one in kept["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept.setdefault("additionalProperties", False)
    for word in ("additionalProperties", "items"):
        if isinstance(kept.get(word), dict):
            kept[word] = _strict(kept[word])
    if schema.get("nullable") and isinstance(kept.get("type"), str):
        kept["type"] = [kept["type"], "null"]
    return kept
