"""What a vector depends on, as a key: the item's content, the model's revision, every parameter."""

import hashlib
from functools import partial

import msgpack

from sie_mcp import wire
from sie_mcp.codec import MSGPACK, decode_body, encode_body

# Changes with the form of values.
_FORM = "1"


def keys_of(request: wire.EncodeRequest, model: str, revision: str) -> list[bytes]:
    """Return one key an item. Names that a caller gives to items are no part of it."""
    params = request.params.model_dump(mode="json")
    shared = hashlib.sha256(_packed([_FORM, model, revision, params]))
    keys = []
    for item in request.items:
        digest = shared.copy()
        digest.update(_packed([item.text, item.input_ids]))
        for image in item.images or ():
            digest.update(_packed([image.data]))
        keys.append(digest.digest())
    return keys


def pack_item(item: wire.EncodedItem) -> bytes:
    """Return an item's result as bytes, without its name."""
    return encode_body(item.model_copy(update={"id": None}), MSGPACK)


def unpack_item(value: bytes) -> wire.EncodedItem:
    """Return the result."""
    return wire.EncodedItem.model_validate(decode_body(value, MSGPACK))


_packed = partial(msgpack.packb, use_bin_type=True)
