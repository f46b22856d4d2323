"""Bodies of any dialect: limits that name their setting, gzip and zstd both ways, bombs."""

import gzip
import json

import httpx2
import numpy as np
import pytest
import zstandard

from sie_mcp import wire
from sie_mcp.compression import choose_encoding, unpack
from sie_mcp.dialects import bodies
from sie_mcp.errors import BodyTooLarge, InvalidInput
from tests.dialects.rig import gateway, worker

pytestmark = pytest.mark.anyio
LIMIT_BYTES = 20_000
LIMITS = {"max_body_bytes": LIMIT_BYTES, "max_items": 8, "max_request_tokens": 64}
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
BODY = {"model": "m3", "input": ["morning coffee", "alpha"]}


async def limited(folder, catalogue):
    async with (
        worker(folder, catalogue, **LIMITS) as worker_url,
        gateway(worker_url, max_body_bytes=LIMIT_BYTES) as gateway_url,
    ):
        for url in (worker_url, gateway_url):
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                yield client


@pytest.mark.parametrize(
    ("body", "status", "code", "setting"),
    [
        ({"input": "a" * 30_000}, 413, "BODY_TOO_LARGE", "max_body_bytes"),
        ({"input": ["a"] * 9}, 400, "INVALID_INPUT", "max_items"),
        ({"input": ["a"] * 8}, 200, None, None),
        ({"input": ["alpha " * 30] * 4}, 400, "INVALID_INPUT", "max_request_tokens"),
        ({"input": ["alpha"]}, 200, None, None),
    ],
)
async def test_each_limit_names_its_setting_in_openai_s_form(
    folder, catalogue, body, status, code, setting
):
    """Case T28."""
    async for client in limited(folder, catalogue):
        answer = await client.post("/v1/embeddings", json={"model": "m3"} | body)
        assert answer.status_code == status, answer.text
        if setting is not None:
            error = answer.json()["error"]
            assert error["code"] == answer.headers["x-sie-error-code"] == code
            assert error["type"] == "invalid_request_error"
            assert setting in error["message"]


async def test_pairs_count_together(folder, catalogue):
    """Each pair is a request of ours; the limit is on what the caller sent."""
    async for client in limited(folder, catalogue):
        body = {"model": "ce", "text_1": ["a"] * 9, "text_2": ["b"] * 9}
        answer = await client.post("/score", json=body)
        assert answer.status_code == 400
        assert "9 items are over the limit of 8 (max_items)" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", PACKERS)
async def test_a_packed_body_reads_as_the_plain_one(clients, name):
    for client in clients:
        plain = (await client.post("/v1/embeddings", json=BODY)).json()
        packed = PACKERS[name](json.dumps(BODY).encode())
        headers = {"Content-Encoding": name, "Content-Type": "application/json"}
        answer = await client.post("/v1/embeddings", content=packed, headers=headers)
        assert answer.json()["data"] == plain["data"]


@pytest.mark.parametrize("name", PACKERS)
async def test_a_body_that_would_unpack_beyond_the_limit_is_refused(folder, catalogue, name):
    bomb = PACKERS[name](b" " * 200_000_000)
    packed = bomb if len(bomb) < LIMIT_BYTES else PACKERS[name](b" " * 1_000_000)
    headers = {"Content-Encoding": name}
    async for client in limited(folder, catalogue):
        answer = await client.post("/embed", content=packed, headers=headers)
        assert answer.status_code == 413
        assert "20,000 bytes unpacked (max_body_bytes)" in answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("br", b"x", "'br' is not served; send gzip or zstd"),
        ("gzip", b"nothing", "not valid gzip"),
        ("gzip", gzip.compress(b"{}" * 99, mtime=0)[:-9], "not valid gzip"),
        ("zstd", b"nothing", "not valid zstd"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_refused(clients, name, content, words):
    for client in clients:
        answer = await client.post("/embed", content=content, headers={"Content-Encoding": name})
        assert answer.status_code == 422  # TEI's status.
        assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("media_type", "packing"), [("application/json", "gzip"), ("application/msgpack", None)]
)
def test_vectors_that_travel_as_bytes_are_not_packed(media_type, packing):
    items = [wire.EncodedItem(dense=wire.Dense(dims=512, values=np.ones(512, np.float32)))]
    body = wire.EncodeResponse(model="m", items=items)
    headers = {"accept": media_type, "accept-encoding": "gzip"}
    content, described = bodies.write(body, headers)
    pieces, in_pieces = bodies.write_pieces(body, headers)
    assert described.get("Content-Encoding") == in_pieces.get("Content-Encoding") == packing
    plain = gzip.decompress(content) if packing else content
    assert plain == (gzip.decompress(b"".join(pieces)) if packing else b"".join(pieces))
    # What is no vector is packed in either form.
    other = wire.EncodeRequest(items=[wire.Item(text="a" * 5_000)])
    assert bodies.write(other, headers)[1]["Content-Encoding"] == "gzip"


def test_no_more_than_the_limit_is_ever_unpacked():
    assert unpack(gzip.compress(b"a" * 10), "gzip", 10) == b"a" * 10
    with pytest.raises(BodyTooLarge):
        unpack(gzip.compress(b"a" * 11), "gzip", 10)
    # A frame that wants 128 MiB of memory, which no body of ours needs.
    wide = zstandard.ZstdCompressionParameters(window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    with pytest.raises(InvalidInput, match="not valid zstd"):
        unpack(frame.compress(b"a") + frame.flush(), "zstd", 10)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        (None, None),
        ("gzip", "gzip"),
        ("gzip, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("zstd;q=0, *", "gzip"),
        ("identity", None),
        ("br", None),
        ("gzip;q=x", None),
    ],
)
async def test_an_answer_is_packed_as_the_caller_takes_it(clients, accepted, encoding):
    assert choose_encoding(accepted, 10_000) == encoding
    assert choose_encoding(accepted, 100) is None
    headers = {"Accept-Encoding": accepted or "identity"}
    for client in clients:
        async with client.stream("POST", "/v1/embeddings", json=BODY, headers=headers) as answer:
            raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert answer.headers.get("content-encoding") == encoding
        assert "Accept-Encoding" in answer.headers["vary"]
        plain = raw if encoding is None else unpack(raw, encoding, 100_000)
        assert len(json.loads(plain)["data"]) == 2


@pytest.mark.parametrize("accepted", ["identity", "gzip", "zstd"])
async def test_a_large_answer_is_written_while_it_is_sent_and_is_the_same(
    clients, monkeypatch, accepted
):
    async def answered(client, **form):
        headers = {"Accept-Encoding": accepted}
        body = BODY | form
        async with client.stream("POST", "/v1/embeddings", json=body, headers=headers) as answer:
            raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        plain = unpack(raw, answer.headers.get("content-encoding"), 100_000)
        return answer.headers, json.loads(plain)["data"]

    for client in clients:
        for form in ({}, {"encoding_format": "base64"}):
            headers, whole = await answered(client, **form)
            assert "content-length" in headers
            with monkeypatch.context() as patch:
                patch.setattr(bodies, "LARGE_BYTES", 1)
                streamed, pieces = await answered(client, **form)
            assert pieces == whole
            assert streamed["transfer-encoding"] == "chunked"
            assert streamed.get("content-encoding", "identity") == accepted
            assert streamed["x-sie-model"] == headers["x-sie-model"]
