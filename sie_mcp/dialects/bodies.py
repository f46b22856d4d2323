"""A request's body to a type of ours, an answer to bytes, and what an answer says in its headers.

For every door that speaks the dialects; knows the headers' words, and no HTTP library.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, unquote

import pydantic

from sie_mcp import wire
from sie_mcp.codec import (
    JSON,
    MSGPACK,
    decode_body,
    encode_body,
    media_type_of,
    preferred_media_type,
)
from sie_mcp.compression import choose_encoding, pack, pack_pieces
from sie_mcp.dialects.operation import AUTO, MODEL_HEADER, DialectBody
from sie_mcp.errors import InvalidInput
from sie_mcp.pieces import PIECE_BYTES, encode_pieces
from sie_mcp.wire.encode import REVISION_HEADER

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)
MAX_EXPLAINED = 3
# Names of a body's unknown fields in an answer's header.
MAX_NAMED = 10
SMALL_ITEMS, SMALL_VALUES = 4, 4_096
# An answer with vectors of so many bytes is not built whole.
LARGE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with more than its body.

    Attributes:
        status: 202: its work has begun and goes on.
        is_small: It is written in less time than a thread takes to begin.
        is_large: It is written in pieces, while it is sent.
    """

    body: pydantic.BaseModel
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_small: bool = False
    is_large: bool = False


def parse(data: bytes, media_type: str, body_type: type[BodyT]) -> BodyT:
    """Read a JSON or MessagePack body.

    Raises:
        InvalidInput: not parsable, or not what the route takes.
    """
    try:
        return body_type.model_validate(decode_body(data, media_type))
    except pydantic.ValidationError as error:
        raise InvalidInput(explain(error)) from error


def explain(error: pydantic.ValidationError) -> str:
    """Say what is wrong with a body in one line, without echoing it."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    parts = [
        f"{'.'.join(str(one) for one in detail['loc']) or 'body'}: {detail['msg']}"
        for detail in details[:MAX_EXPLAINED]
    ]
    more = len(details) - len(parts)
    return "; ".join(parts) + (f"; and {more} more" if more else "")


def model_of(headers: Mapping[str, str], body: DialectBody | None = None) -> str:
    """Return the model that is asked: the body's, the header's, or the default."""
    named = body.model if body is not None else None
    return named or unquote(headers.get(MODEL_HEADER, "")).strip() or AUTO


def reply_to(body: pydantic.BaseModel, answers: Sequence[wire.Response]) -> Reply:
    """Return an answer with what shapes without a place for it would lose: model, tokens, cuts."""
    results = [one for answer in answers for one in _results(answer)]
    headers = {
        # What a gateway routes by, where the caller used an alias.
        "X-SIE-Model": quote(answers[0].model, safe="/"),
        "X-SIE-Units-Input-Tokens": str(sum(one.usage.input_tokens for one in answers)),
        "X-SIE-Truncated-Items": str(sum(one.truncated for one in results)),
    }
    revisions = {one.revision for one in answers if isinstance(one, wire.EncodeResponse)}
    if len(revisions) == 1 and (revision := revisions.pop()) is not None:
        headers[REVISION_HEADER] = revision
    is_large = _num_bytes(answers) >= LARGE_BYTES
    return Reply(body, headers=headers, is_small=are_small(answers), is_large=is_large)


def are_small(answers: Sequence[wire.Response]) -> bool:
    """Whether answers of ours hold a few vectors at most."""
    encoded = [one for one in answers if isinstance(one, wire.EncodeResponse)]
    if len(encoded) < len(answers) or sum(len(one.items) for one in encoded) > SMALL_ITEMS:
        return False
    return sum(_num_values(item) for one in encoded for item in one.items) <= SMALL_VALUES


def ignored_fields(body: DialectBody) -> dict[str, str]:
    """Name the fields that nothing reads: a misspelt one would otherwise look obeyed."""
    names = [name for name in body.model_extra or () if name.isidentifier() and name.isascii()]
    return {"X-SIE-Ignored-Fields": ",".join(sorted(names)[:MAX_NAMED])} if names else {}


def answer_type(headers: Mapping[str, str]) -> str:
    """Return JSON or MSGPACK: what the caller wants, else what it sent."""
    try:
        sent = media_type_of(headers.get("content-type"))
    except InvalidInput:
        sent = JSON
    return preferred_media_type(headers.get("accept"), sent)


def write(body: pydantic.BaseModel, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """Serialise once, and compress where the caller takes that; return its headers too.

    For a large body, call it on a thread.
    """
    media_type = answer_type(headers)
    content = encode_body(body, media_type)
    packing = _packing(body, media_type, headers, len(content))
    if packing is not None:
        content = pack(content, packing)
    return content, _described(media_type, packing)


def write_pieces(
    body: pydantic.BaseModel, headers: Mapping[str, str]
) -> tuple[Iterator[bytes], dict[str, str]]:
    """Serialise a large body as `write` does, but piece by piece; each takes a while to make."""
    media_type = answer_type(headers)
    pieces = encode_pieces(body, media_type)
    packing = _packing(body, media_type, headers, PIECE_BYTES)
    if packing is not None:
        pieces = pack_pieces(pieces, packing)
    return pieces, _described(media_type, packing)


def _packing(
    body: pydantic.BaseModel, media_type: str, headers: Mapping[str, str], num_bytes: int
) -> str | None:
    """Return how to compress an answer; vectors as bytes not at all, for 7 % would be gained."""
    if media_type == MSGPACK and isinstance(body, wire.EncodeResponse):
        return None
    return choose_encoding(headers.get("accept-encoding"), num_bytes)


def _described(media_type: str, packing: str | None) -> dict[str, str]:
    described = {"Content-Type": media_type, "Vary": "Accept, Accept-Encoding"}
    return described if packing is None else described | {"Content-Encoding": packing}


def _num_bytes(answers: Sequence[wire.Response]) -> int:
    """Return what the vectors of answers take in memory."""
    encoded = [one for one in answers if isinstance(one, wire.EncodeResponse)]
    return sum(
        one.values.nbytes for answer in encoded for item in answer.items for one in _vectors(item)
    )


def _num_values(item: wire.EncodedItem) -> int:
    return sum(one.values.size for one in _vectors(item))


def _vectors(item: wire.EncodedItem) -> list[wire.Dense | wire.Sparse | wire.Multivector]:
    held = (item.dense, item.sparse, item.multivector, item.muvera)
    return [one for one in held if one is not None]


def _results(answer: wire.Response) -> Sequence[wire.ItemResult | wire.Score]:
    return answer.scores if isinstance(answer, wire.ScoreResponse) else answer.items
