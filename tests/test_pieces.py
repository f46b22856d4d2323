"""Large bodies piece by piece: the bytes of the whole, in little memory, compressed too."""

import gzip
import tracemalloc
from collections.abc import Callable, Iterable

import numpy as np
import pydantic
import pytest
import zstandard

from sie_mcp import wire
from sie_mcp.codec import JSON, MSGPACK, encode_body
from sie_mcp.compression import pack_pieces
from sie_mcp.dialects import cohere, openai, tei
from sie_mcp.dialects.bodies import write
from sie_mcp.pieces import PIECE_BYTES, encode_pieces
from sie_mcp.wire_fields import Array

DIMS = 256
MOST_BYTES = 8 * PIECE_BYTES
FORMS = [JSON, MSGPACK]


def response(num_items: int) -> wire.EncodeResponse:
    values = np.random.default_rng(7).standard_normal((num_items, DIMS)).astype(np.float32)
    items = [
        wire.EncodedItem(
            id=None if place % 3 else f'"items":[{place}',
            num_tokens=place,
            dense=wire.Dense(dims=DIMS, values=one),
            error=wire.ItemError(code="X", message="[]") if place % 5 == 0 else None,
        )
        for place, one in enumerate(values)
    ]
    return wire.EncodeResponse(model='m"[', items=items, revision="r")


def in_openais(form: str) -> Callable[[int], pydantic.BaseModel]:
    body = openai.EmbeddingsRequest(input="a", encoding_format=form)
    return lambda num_items: openai.from_encode(body, [response(num_items)])


def in_coheres(num_items: int) -> pydantic.BaseModel:
    body = cohere.EmbedRequest(texts=["[a]"] * num_items, embedding_types=["float", "base64"])
    return cohere.from_encode(body, [response(num_items)])


def in_teis(num_items: int) -> pydantic.BaseModel:
    return tei.Vectors([item.dense.values for item in response(num_items).items])


BODIES = [response, in_openais("float"), in_openais("base64"), in_coheres, in_teis]


@pytest.mark.parametrize("media_type", FORMS)
@pytest.mark.parametrize("num_items", [1, 4, 5, 200])
@pytest.mark.parametrize("make", BODIES)
def test_the_pieces_are_the_whole(make, num_items, media_type):
    body = make(num_items)
    pieces = list(encode_pieces(body, media_type))
    assert b"".join(pieces) == encode_body(body, media_type)


@pytest.mark.parametrize("media_type", FORMS)
def test_a_body_without_lists_is_itself(media_type):
    for body in (wire.Usage(), wire.Revision(model="m"), wire.EncodeOptions(), Nothing()):
        assert b"".join(encode_pieces(body, media_type)) == encode_body(body, media_type)


class Nothing(pydantic.BaseModel):
    """A body that has nothing to say."""

    values: list[int] | None = None


class Wide(pydantic.BaseModel):
    """A body of vectors that differ in length by much."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    rows: list[Array]


@pytest.mark.parametrize("media_type", FORMS)
def test_an_empty_list_is_one_too(media_type):
    for body in (tei.Vectors([]), wire.EncodeResponse(model="m", items=[])):
        assert b"".join(encode_pieces(body, media_type)) == encode_body(body, media_type)


@pytest.mark.parametrize("media_type", FORMS)
def test_vectors_can_be_of_any_length(media_type):
    rows = [np.arange(10 ** (place % 6), dtype=np.int32) for place in range(12)]
    body = Wide(rows=rows)
    assert b"".join(encode_pieces(body, media_type)) == encode_body(body, media_type)


@pytest.mark.parametrize("make", [response, in_openais("base64")])
@pytest.mark.parametrize("media_type", FORMS)
def test_no_more_than_a_few_pieces_are_in_memory(make, media_type):
    """The whole takes more than that: the bound would show a second copy."""
    body = make(2_500)
    num_bytes, peak_bytes = _peak_of(lambda: encode_pieces(body, media_type))
    assert num_bytes > MOST_BYTES > peak_bytes
    _, whole_bytes = _peak_of(lambda: [encode_body(body, media_type)])
    assert whole_bytes > MOST_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_compressed_pieces_are_the_whole_and_take_little_memory(encoding):
    body = response(2_500)
    packed = b"".join(pack_pieces(encode_pieces(body, JSON), encoding))
    assert len(packed) < len(encode_body(body, JSON)) / 2
    unpack = gzip.decompress if encoding == "gzip" else _unpack_zstd
    assert unpack(packed) == encode_body(body, JSON)
    _, peak_bytes = _peak_of(lambda: pack_pieces(encode_pieces(body, JSON), encoding))
    assert peak_bytes < MOST_BYTES
    _, whole_bytes = _peak_of(lambda: [write(body, {"accept-encoding": encoding})[0]])
    assert whole_bytes > MOST_BYTES


def _unpack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _peak_of(make: Callable[[], Iterable[bytes]]) -> tuple[int, int]:
    """Return the bytes that came, and the most memory that making them took."""
    tracemalloc.start()
    try:
        num_bytes = sum(len(piece) for piece in make())
        return num_bytes, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
