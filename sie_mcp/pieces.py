"""A large body's bytes in pieces: the same bytes as `encode_body`'s, never all of them at once.

Long lists are written a few elements at a time; everything else of a body is small. Knows the two
forms that bodies travel in, and no body in particular.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
import pydantic

from sie_mcp.codec import MSGPACK, pack_array

# So much is handed on at once.
PIECE_BYTES = 256 * 1024
# Of elements that are written together; for a moment each is there several times.
_PART_BYTES = 64 * 1024
# Elements can be a float or a page of vectors: how many make a part is found out from few.
_FIRST_COUNT, _MOST_GROWTH = 4, 8


def encode_pieces(body: pydantic.BaseModel, media_type: str) -> Iterator[bytes]:
    """Serialise a body in pieces of about PIECE_BYTES; a single element of a list can be larger.

    `media_type` is JSON or MSGPACK; None fields are left out.
    """
    pieces = _packed(body) if media_type == MSGPACK else _json(body)
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _json(body: pydantic.BaseModel) -> Iterator[bytes]:
    if isinstance(body, pydantic.RootModel):
        yield from _json_list(body, "root")
        return
    before = b"{"
    for name in _names(body):
        value = getattr(body, name)
        if _is_long(value):
            yield b'%b"%b":' % (before, _key(body, name).encode())
            yield from (
                _json(value) if isinstance(value, pydantic.BaseModel) else _json_list(body, name)
            )
        else:
            yield before + _json_of(body, name)[1:-1]
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _json_list(body: pydantic.BaseModel, name: str) -> Iterator[bytes]:
    before = b"["
    for part in _Parts(body, name):
        text = _json_of(part.body, name)
        own = text[text.index(b"[") + 1 : text.rindex(b"]")]
        yield before + own
        part.num_bytes = len(own)
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _packed(body: pydantic.BaseModel) -> Iterator[bytes]:
    if isinstance(body, pydantic.RootModel):
        yield from _packed_list(body, "root")
        return
    packer = _packer()
    names = _names(body)
    yield packer.pack_map_header(len(names))
    for name in names:
        value, key = getattr(body, name), _key(body, name)
        yield packer.pack(key)
        if not _is_long(value):
            yield packer.pack(_plain(body, name)[key])
        elif isinstance(value, pydantic.BaseModel):
            yield from _packed(value)
        else:
            yield from _packed_list(body, name)


def _packed_list(body: pydantic.BaseModel, name: str) -> Iterator[bytes]:
    packer = _packer()
    yield packer.pack_array_header(len(getattr(body, name)))
    is_root = isinstance(body, pydantic.RootModel)
    for part in _Parts(body, name):
        plain = _plain(part.body, name)
        elements = plain if is_root else plain[_key(body, name)]
        own = b"".join([packer.pack(element) for element in elements])
        yield own
        part.num_bytes = len(own)


class _Part:
    """A body with a few elements of its list.

    Attributes:
        num_bytes: What it came to, as whoever wrote it says.
    """

    def __init__(self, body: pydantic.BaseModel) -> None:
        self.body = body
        self.num_bytes = 0


class _Parts:
    """A body's list cut into parts that should each come to _PART_BYTES."""

    def __init__(self, body: pydantic.BaseModel, name: str) -> None:
        self._body = body
        self._name = name

    def __iter__(self) -> Iterator[_Part]:
        values: Sequence[Any] = getattr(self._body, self._name)
        start, count = 0, _FIRST_COUNT
        while start < len(values):
            few = values[start : start + count]
            part = _Part(self._body.model_copy(update={self._name: few}))
            yield part
            start += count
            fitting = count * _PART_BYTES // max(part.num_bytes, 1)
            count = max(min(fitting, count * _MOST_GROWTH), 1)


def _names(body: pydantic.BaseModel) -> list[str]:
    """Return the fields that travel."""
    return [
        name
        for name, field in type(body).model_fields.items()
        if not field.exclude and getattr(body, name) is not None
    ]


def _is_long(value: Any) -> bool:
    """Whether a value is a list that may be long, or holds one."""
    if isinstance(value, pydantic.BaseModel):
        return any(_is_long(getattr(value, name)) for name in type(value).model_fields)
    return isinstance(value, list) and len(value) > _FIRST_COUNT


def _key(body: pydantic.BaseModel, name: str) -> str:
    """Return the name that a field travels under."""
    alias = type(body).model_fields[name].serialization_alias
    return alias if alias and body.model_config.get("serialize_by_alias") else name


def _json_of(body: pydantic.BaseModel, name: str) -> bytes:
    """Return an object of one field, or the list that a root is."""
    include = None if isinstance(body, pydantic.RootModel) else {name}
    return body.model_dump_json(include=include, exclude_none=True).encode()


def _plain(body: pydantic.BaseModel, name: str) -> Any:
    include = None if isinstance(body, pydantic.RootModel) else {name}
    return body.model_dump(include=include, exclude_none=True)


def _packer() -> msgpack.Packer:
    return msgpack.Packer(default=pack_array, use_bin_type=True, buf_size=_PART_BYTES)
