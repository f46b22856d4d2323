"""A request and its answer as they travel by a broker: MessagePack of what HTTP would carry. Pure.

What the broker and both ends need of a message without reading it stands in its headers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgpack
import pydantic

from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.errors import InvalidInput, SieError

MessageT = TypeVar("MessageT")

# By it the broker drops what is sent twice, and whoever waits knows its answer.
ID = "Nats-Msg-Id"
# Where the answer goes; missing for jobs.
REPLY = "Sie-Reply"
# Seconds since 1970: what is pulled later is not run.
DEADLINE = "Sie-Deadline"
# The body lies in a store under this name.
BODY = "Sie-Body"
REASON = "Sie-Reason"
# What the broker is to take for another message, though it is the same request.
ALONE = ".alone"

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A request to a worker."""

    method: str
    path: str
    headers: Pairs
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker said to it."""

    status: int
    headers: Pairs
    body: bytes


_CALL = pydantic.TypeAdapter(Call)
_ANSWER = pydantic.TypeAdapter(Answer)


def pack(message: Call | Answer) -> bytes:
    """Return a message's bytes."""
    head: list[Any] = (
        [message.method, message.path] if isinstance(message, Call) else [message.status]
    )
    packed: bytes = msgpack.packb([*head, message.headers, message.body])
    return packed


def unpack_call(data: bytes) -> Call:
    """Read a request.

    Raises:
        InvalidInput: it is none.
    """
    return _unpack(_CALL, ("method", "path", "headers", "body"), data)


def unpack_answer(data: bytes) -> Answer:
    """Read an answer.

    Raises:
        InvalidInput: it is none.
    """
    return _unpack(_ANSWER, ("status", "headers", "body"), data)


def error_answer(error: SieError) -> Answer:
    """Return what a worker would answer with an error."""
    headers = {"X-SIE-Error-Code": error.code, "Content-Type": MSGPACK}
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{error.retry_after_s:.1f}".removesuffix(".0")
    content = {"error": {"code": error.code, "message": str(error)}}
    return Answer(error.status, tuple(headers.items()), encode_body(content, MSGPACK))


def name_of(headers: Mapping[str, str]) -> str:
    """Return the id of a message's request, whichever lane it came by; empty where it has none."""
    return headers.get(ID, "").removesuffix(ALONE)


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """Return when a message's caller waits no more; None where it does not say, or not so."""
    try:
        return float(headers[DEADLINE])
    except (KeyError, ValueError):
        return None


def _unpack(
    adapter: pydantic.TypeAdapter[MessageT], names: tuple[str, ...], data: bytes
) -> MessageT:
    try:
        values = msgpack.unpackb(data, strict_map_key=False)
        return adapter.validate_python(dict(zip(names, values, strict=True)))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidInput(f"{len(data)} bytes are no message of this version") from error
