"""The OpenAPI 3.1 document of all routes, from the types that read and write them."""

import json
from functools import cache
from typing import Any, Literal

import pydantic
from pydantic.json_schema import models_json_schema

import sie_mcp
from sie_mcp.dialects import errors, native
from sie_mcp.dialects.operation import MODEL_HEADER, SIDE_HEADER, Operation, SidedBody
from sie_mcp.dialects.table import OPERATIONS

JSON, MSGPACK = "application/json", "application/msgpack"
Mode = Literal["validation", "serialization"]
Schemas = dict[Any, dict[str, Any]]
_ERRORS: tuple[type[pydantic.BaseModel], ...] = (errors.NativeError, errors.TeiError)
_HEADERS = {
    "X-SIE-Timeout": "Seconds that the caller waits; 504 after that.",
    "X-SIE-Load-Wait": "Seconds to wait for a model to load; 503 MODEL_LOADING after that.",
    "X-SIE-Priority": "interactive or bulk.",
    "X-SIE-Client": "A name, to share the queue by.",
}
_SIDE = "query or document: what the texts are, where the body does not say."
_MODEL = "The model, where the body does not say; auto, the default, is the default model."
_DESCRIPTION = (
    "Bodies may be gzip or zstd (Content-Encoding), answers too (Accept-Encoding). "
    "Every error has X-SIE-Error-Code, and Retry-After where a retry can help."
)


@cache
def openapi_json() -> bytes:
    """Return the document."""
    schemas, definitions = models_json_schema(
        [*_models()], ref_template="#/components/schemas/{model}"
    )
    paths = {
        **{
            path: {"post": _of_operation(one, path, schemas)}
            for one in OPERATIONS
            for path in one.paths
        },
        **{one.path: _of_route(one, schemas) for one in native.ROUTES},
    }
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "sie-mcp",
            "version": sie_mcp.__version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"bearer": []}],
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _models() -> dict[tuple[type[pydantic.BaseModel], Mode], None]:
    """Return every type once, with the way that it goes."""
    bodies = [
        *(one.body for one in OPERATIONS),
        *(one.body for one in native.ROUTES if one.body is not None),
    ]
    answers = [
        *(one.answer for one in OPERATIONS),
        *(one.answer for one in native.ROUTES),
        *(one.error[0] for one in OPERATIONS),
        *_ERRORS,
    ]
    found: dict[tuple[type[pydantic.BaseModel], Mode], None] = {}
    found |= {(one, "validation"): None for one in bodies}
    found |= {(one, "serialization"): None for one in answers}
    return found


def _of_operation(operation: Operation, path: str, schemas: Schemas) -> dict[str, Any]:
    sided = {SIDE_HEADER: _SIDE} if issubclass(operation.body, SidedBody) else {}
    name = operation.name if path == operation.paths[0] else f"{operation.name}_alias"
    return {
        "operationId": name,
        "summary": operation.summary,
        "parameters": _headers({MODEL_HEADER: _MODEL, **sided}),
        "requestBody": _body(schemas[operation.body, "validation"], [JSON]),
        "responses": _responses(operation.answer, operation.error[0], [JSON], schemas),
    }


def _of_route(route: native.Route, schemas: Schemas) -> dict[str, Any]:
    extra = {MODEL_HEADER: _MODEL} if route.has_model_header else {}
    extra |= {SIDE_HEADER: _SIDE} if route.is_sided else {}
    is_native = route.path.startswith("/v1/")
    forms = [JSON, MSGPACK] if is_native else [JSON]
    error = errors.NativeError if is_native else errors.TeiError
    answers = _responses(route.answer, error, forms, schemas)
    if route.status is not None:
        answers[str(route.status)] = answers["200"] | {"description": "It has begun."}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_path(route.path), *_headers(extra)],
        "responses": answers,
    }
    if route.body is None:
        return {"get": found}
    return {"post": found | {"requestBody": _body(schemas[route.body, "validation"], forms)}}


def _path(path: str) -> list[dict[str, Any]]:
    if "{model}" not in path:
        return []
    schema = {"type": "string", "minLength": 1}
    return [{"name": "model", "in": "path", "required": True, "schema": schema}]


def _headers(extra: dict[str, str]) -> list[dict[str, Any]]:
    number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 86_400}
    kinds: dict[str, dict[str, Any]] = {
        "X-SIE-Timeout": number,
        "X-SIE-Load-Wait": number,
        "X-SIE-Priority": {"enum": ["interactive", "bulk"]},
        "X-SIE-Client": {"type": "string", "maxLength": 64},
        SIDE_HEADER: {"enum": ["query", "document"]},
    }
    return [
        {
            "name": name,
            "in": "header",
            "description": text,
            "schema": kinds.get(name, {"type": "string"}),
        }
        for name, text in (extra | _HEADERS).items()
    ]


def _body(schema: dict[str, Any], forms: list[str]) -> dict[str, Any]:
    return {"required": True, "content": {form: {"schema": schema} for form in forms}}


def _responses(
    answer: type[pydantic.BaseModel],
    error: type[pydantic.BaseModel],
    forms: list[str],
    schemas: Schemas,
) -> dict[str, Any]:
    good, bad = schemas[answer, "serialization"], schemas[error, "serialization"]
    return {
        "200": {"description": "Done.", "content": {form: {"schema": good} for form in forms}},
        "default": {
            "description": "An error; its code is in X-SIE-Error-Code.",
            "content": {form: {"schema": bad} for form in forms},
        },
    }
