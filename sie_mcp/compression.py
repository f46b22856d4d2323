"""Compressed bodies, both ways: gzip and zstd, never unpacked beyond a limit.

Knows the headers' words; knows no HTTP library.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import zstandard

from sie_mcp.errors import BodyTooLarge, InvalidInput

# A smaller answer fits a packet or two as it is.
MIN_BYTES = 1_024
# Both faster than a network: what is saved is time.
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1
# With a header and a check, as a file has them.
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
# zstd's frames say how much memory they want; its own tools make no more than this by default.
_MAX_WINDOW_BYTES = 8 * 1024 * 1024


def unpack(data: bytes, content_encoding: str | None, max_bytes: int) -> bytes:
    """Return a body as it was before it was compressed.

    Raises:
        BodyTooLarge: it would come to more than `max_bytes`; no more than that was unpacked.
        InvalidInput: an encoding that is not served, or bytes that are not in it.
    """
    name = (content_encoding or "identity").strip().lower()
    if name in ("identity", ""):
        return data
    try:
        if name in ("gzip", "x-gzip"):
            unpacked = gzip.GzipFile(fileobj=io.BytesIO(data)).read(max_bytes + 1)
        elif name == "zstd":
            reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(
                data, read_across_frames=True
            )
            unpacked = reader.read(max_bytes + 1)
        else:
            raise InvalidInput(f"content encoding {name[:40]!r} is not served; send gzip or zstd")
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InvalidInput(f"the body is not valid {name}: {error}") from error
    if len(unpacked) > max_bytes:
        raise BodyTooLarge(
            f"the body is over {max_bytes:,} bytes unpacked (max_body_bytes); "
            "send fewer items at once"
        )
    return unpacked


def choose_encoding(accept_encoding: str | None, num_bytes: int) -> str | None:
    """Return "zstd" or "gzip" where the caller takes it and the answer is worth it, else None."""
    if not accept_encoding or num_bytes < MIN_BYTES:
        return None
    weights = {}
    for part in accept_encoding.lower().split(","):
        name, _, parameters = part.partition(";")
        weights[name.strip()] = _weight(parameters)
    best, best_weight = None, 0.0
    for name in ("zstd", "gzip"):
        weight = weights.get(name, weights.get("*", 0.0))
        if weight > best_weight:
            best, best_weight = name, weight
    return best


def pack(data: bytes, encoding: str) -> bytes:
    """Compress with an encoding of `choose_encoding`."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)
    return gzip.compress(data, _GZIP_LEVEL, mtime=0)


def pack_pieces(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Compress what comes in pieces, a piece at a time, with an encoding of `choose_encoding`."""
    packer = _make_packer(encoding)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


class _Packer(Protocol):
    """What compresses a stream."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _make_packer(encoding: str) -> _Packer:
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
    return zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW_BITS)


def _weight(parameters: str) -> float:
    """Read q=0.5; what cannot be read counts as refused."""
    name, _, value = parameters.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
