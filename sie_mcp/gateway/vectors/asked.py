"""What a request of any dialect asks of encode, and how the answer becomes the dialect's again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pydantic

from sie_mcp import wire
from sie_mcp.codec import media_type_of
from sie_mcp.dialects.asked import asked_of
from sie_mcp.dialects.bodies import ignored_fields, model_of, parse
from sie_mcp.dialects.operation import Operation
from sie_mcp.dialects.sides import with_side
from sie_mcp.dialects.table import OPERATIONS

_BY_PATH = {path: one for one in OPERATIONS for path in one.paths}
_ENCODE = "/v1/encode/"


@dataclass(frozen=True, slots=True)
class AskedVectors:
    """A request for vectors.

    Attributes:
        name: Of the route's figures.
        model: As the caller names it.
        requests: In our own form, with the side that a header may name.
        answer: Makes the dialect's answer of ours, in the same order.
        headers: Of the answer.
    """

    name: str
    model: str
    requests: list[wire.EncodeRequest]
    answer: Callable[[list[wire.EncodeResponse]], pydantic.BaseModel]
    headers: dict[str, str]


def may_ask(path: str, method: str) -> bool:
    """Whether a request can be for vectors."""
    return method == "POST" and (path.startswith(_ENCODE) or path in _BY_PATH)


def read_asked(path: str, headers: Mapping[str, str], content: bytes) -> AskedVectors | None:
    """Read a request; None where it is for something else than vectors.

    Raises:
        InvalidInput: the body is none of the route's.
    """
    media_type = media_type_of(headers.get("content-type"))
    if path.startswith(_ENCODE):
        body = parse(content, media_type, wire.EncodeRequest)
        requests: list[wire.Request] = [body]
        model = asked_of(path, "POST").model
        return _asked("encode", model, requests, headers, lambda found: found[0], {})
    operation: Operation = _BY_PATH[path]
    given = parse(content, media_type, operation.body)
    requests = operation.to_requests(given)
    return _asked(
        operation.name,
        model_of(headers, given),
        requests,
        headers,
        lambda found: operation.from_responses(given, list(found)),
        ignored_fields(given),
    )


def _asked(
    name: str,
    model: str,
    requests: list[wire.Request],
    headers: Mapping[str, str],
    answer: Callable[[list[wire.EncodeResponse]], pydantic.BaseModel],
    described: dict[str, str],
) -> AskedVectors | None:
    sided = [with_side(one, headers) for one in requests]
    found = [one for one in sided if isinstance(one, wire.EncodeRequest)]
    if len(found) < len(requests):
        return None
    return AskedVectors(name, model, found, answer, described)
