"""Bodies to bytes and back: JSON, or MessagePack with numpy arrays in the msgpack-numpy map form.

An array is the map {b"nd": true, b"type": "<f4", b"kind": b"", b"shape": [...], b"data": bin}.
Object, structured and complex dtypes are refused: decoding never runs anything.
"""

import json
import re
from typing import Any

import msgpack
import numpy as np
import pydantic

from sie_mcp.errors import InvalidInput

JSON = "application/json"
MSGPACK = "application/msgpack"
MAX_ARRAY_DIMS = 8
_DTYPE = re.compile(r"^[<>|=](f[248]|[iu][1248]|b1)$")


def encode_body(body: pydantic.BaseModel | dict[str, Any], media_type: str) -> bytes:
    """Serialise a body; None fields are left out. `media_type` is JSON or MSGPACK."""
    if media_type == MSGPACK:
        plain = body if isinstance(body, dict) else body.model_dump(exclude_none=True)
        packed: bytes = msgpack.packb(plain, default=pack_array, use_bin_type=True)
        return packed
    if isinstance(body, dict):
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
    return body.model_dump_json(exclude_none=True).encode()


def decode_body(data: bytes, media_type: str) -> Any:
    """Parse bytes into plain Python values and numpy arrays.

    Raises:
        InvalidInput: the bytes are not what `media_type` says, or hold a refused array.
    """
    try:
        if media_type == MSGPACK:
            return msgpack.unpackb(data, object_hook=_unpack_array, strict_map_key=False)
        return json.loads(data)
    # TypeError: a map whose key is a list, or an array whose sizes are no numbers.
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        is_deep = isinstance(error, RecursionError | msgpack.StackError)
        # What follows a semicolon is how a program would read on.
        reason = "it is nested too deeply" if is_deep else str(error).partition(";")[0]
        raise InvalidInput(f"the body is not valid {media_type}: {reason}") from error


def media_type_of(content_type: str | None) -> str:
    """Return JSON or MSGPACK for a Content-Type header; missing means JSON.

    Raises:
        InvalidInput: any other content type.
    """
    name = (content_type or JSON).partition(";")[0].strip().lower()
    if name in (MSGPACK, "application/x-msgpack"):
        return MSGPACK
    if name in (JSON, "text/json", "application/x-www-form-urlencoded", ""):
        return JSON
    raise InvalidInput(f"content type {name!r} is not supported; send {JSON} or {MSGPACK}")


def preferred_media_type(accept: str | None, content_type: str) -> str:
    """Choose the answer's form: what Accept names, else the form of the request."""
    if accept and JSON in accept:
        return JSON
    if accept and MSGPACK in accept:
        return MSGPACK
    return content_type


def pack_array(value: Any) -> Any:
    """Return an array as the map that stands for it; msgpack asks for what it does not know."""
    if isinstance(value, np.ndarray):
        return {
            b"nd": True,
            b"type": value.dtype.str,
            b"kind": b"",
            b"shape": list(value.shape),
            # As it lies in memory: a large answer is copied once, into the body.
            b"data": np.ascontiguousarray(value).reshape(-1).view(np.uint8).data,
        }
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot travel in a body")


def _unpack_array(pairs: dict[Any, Any]) -> Any:
    if b"nd" not in pairs:
        return pairs
    dtype = pairs.get(b"type")
    dtype = dtype.decode("ascii", "replace") if isinstance(dtype, bytes) else dtype
    if not isinstance(dtype, str) or not _DTYPE.match(dtype):
        raise ValueError(f"array dtype {dtype!r} is refused")
    data = pairs.get(b"data")
    if not isinstance(data, bytes):
        raise ValueError("array data must be binary")
    flat = np.frombuffer(data, dtype=np.dtype(dtype))
    if not pairs[b"nd"]:
        return flat[0].item() if flat.size == 1 else flat
    shape = pairs.get(b"shape")
    if not isinstance(shape, list | tuple) or len(shape) > MAX_ARRAY_DIMS:
        raise ValueError(f"array shape must be a list of at most {MAX_ARRAY_DIMS} sizes")
    return flat.reshape([int(size) for size in shape])
