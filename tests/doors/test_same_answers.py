"""A door's answers are the worker's, byte for byte, whatever is asked and however."""

import gzip
import json

import pytest
import zstandard

from sie_mcp import wire
from sie_mcp.codec import JSON, MSGPACK, encode_body
from sie_mcp.dialects import bodies
from tests.doors.both import MAX_BODY_BYTES, both, read
from tests.engine.conftest import play

TEXTS = ["one", "two words", "three more words"]
PAIRS = {"query": "q", "documents": TEXTS}
BODIES = {
    "/v1/encode/org/model": {"items": [{"text": one, "id": one} for one in TEXTS]},
    "/v1/score/a": {"query": {"text": "q"}, "items": [{"text": one} for one in TEXTS]},
    "/v1/extract/a": {"items": [{"text": "x"}], "params": {"labels": ["name"]}},
    "/v1/embeddings": {"model": "a", "input": TEXTS, "mispelt": 1},
    "/embeddings": {"input": "one"},
    "/v1/rerank": {"model": "a", **PAIRS},
    "/v2/rerank": {"model": "a", **PAIRS},
    "/v2/embed": {"model": "a", "texts": TEXTS, "input_type": "search_query"},
    "/embed": {"inputs": TEXTS},
    "/embed_all": {"inputs": "one"},
    "/embed_sparse": {"inputs": "one"},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}},
    "/rerank": {"query": "q", "texts": TEXTS},
    "/predict": {"inputs": "one"},
    "/score": {"model": "a", "queries": "q", "documents": TEXTS},
    "/v1/score": {"model": "a", "queries": "q", "documents": TEXTS},
    "/pooling": {"model": "a", "input": "one"},
    "/tokenize": {"inputs": "one"},
    "/decode": {"ids": [1, 2]},
    "/v1/models/toy/load": {},
    "/v1/nothing": {},
    "/joined/a": {"items": [{"text": "x"}]},
}
GETS = [
    "/health", "/healthz", "/readyz", "/openapi.json", "/v1/models/toy", "/v1/models/nobody",
    "/v1/revision/toy", "/v1/revision/toy?lora=x", "/v1/memory", "/info", "/info?model=toy", "/",
    "/v1/nothing", "/v1/embeddings", "/v1/encode/a", "/joined/a",
]  # fmt: skip
# How long these are changes with every request.
COUNTING = ("/healthz", "/v1/models/toy", "/v1/memory")
HEADERS = [
    {"X-SIE-SDK-Version": "0.3.1"},
    {"X-SIE-Model": "by%2Fheader"},
    {"X-SIE-Input-Type": "query"},
    {"X-SIE-Input-Type": "both"},
    {"X-SIE-Priority": "urgent"},
    {"X-SIE-Priority": "bulk", "X-SIE-Client": "me", "X-SIE-Timeout": "9"},
    {"X-SIE-Client": "é" * 33},
    {"X-SIE-Timeout": "soon"},
    {"X-SIE-Load-Wait": "-1"},
    {"X-SIE-Local-Models": "no"},
    {"X-SIE-Share": "encode 99 first"},
    {"X-Request-Id": "not good!"},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/json; charset=utf-8"},
    {"Accept": MSGPACK},
    {"Accept": "text/html"},
    {"Accept-Encoding": "gzip"},
    {"Expect": "100-continue"},
]


@pytest.mark.parametrize("joins", [True, False], ids=["joins", "hands on"])
def test_every_route_answers_as_without_a_door(tmp_path, joins):
    async def scenario():
        async with both(tmp_path, joins=joins) as asked:
            await asked.straight.post("/v1/encode/toy", json=BODIES["/v1/encode/org/model"])
            for path, body in BODIES.items():
                await asked.compare("POST", path, json=body)
            for path in GETS:
                await asked.compare("GET", path)
                if path not in COUNTING:
                    await asked.compare("HEAD", path)
            for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
                for path in ("/v1/embeddings", "/v1/nothing", "/joined/a"):
                    await asked.compare(method, path)

    play(scenario)


@pytest.mark.parametrize("path", ["/v1/encode/a", "/v1/embeddings", "/embed", "/v1/rerank"])
@pytest.mark.parametrize(
    "headers", HEADERS, ids=lambda one: " ".join(f"{k}={v}" for k, v in one.items())
)
def test_headers_say_the_same_by_a_door(tmp_path, path, headers):
    async def scenario():
        body = BODIES["/v1/encode/org/model"] if path == "/v1/encode/a" else BODIES[path]
        given = {name: value.encode() for name, value in headers.items()}
        if "Content-Type" not in headers:
            given["Content-Type"] = JSON.encode()
        async with both(tmp_path) as asked:
            await asked.compare("POST", path, content=json.dumps(body), headers=given)

    play(scenario)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"items":[]}',
        b'{"items":[{"txt":"x"}]}',
        b'{"items":[{"text":""}]}',
        b'{"items":[{"text":"x"},{"text":"  "}]}',
        b'{"items":[{"text":null}]}',
        b'{"items":[{"text":"\\ud800"}]}',
        b'{"items":[{"text":"x","spans":[]}]}',
        b'{"items":[{"input_ids":[1,2]}]}',
        b'{"items":[{"text":"fine"},{"text":"poison"}]}',
        b'{"items":[{"text":"x"}],"params":{"output_types":["sparse"]}}',
        b'{"items":[{"text":"x"}],"params":{"output_dtype":"int8"}}',
        b'{"items":[{"text":"x"}],"params":{"nothing":1}}',
        b'{"items":[{"text":"x"}],"more":1}',
        b'{"items":[' + b",".join([b'{"text":"x"}'] * 201) + b"]}",
        b'{"items":[{"text":"%s"}]}' % (b"x" * 12_000),
        b'{"items":[{"text":"%s"}]}' % (b"x" * 300_000),
        b'{"items":[{"text":"%s"}]}' % (b"x" * MAX_BODY_BYTES),
    ],
    ids=lambda one: one[:60].decode("latin-1"),
)
def test_what_is_wrong_with_a_body_is_said_as_without_a_door(tmp_path, content):
    async def scenario():
        plain = {"Content-Type": JSON}
        async with both(tmp_path) as asked:
            await asked.compare("POST", "/v1/encode/a", content=content, headers=plain)
            for sdk in ({}, {"X-SIE-SDK-Version": "0.10.1"}):
                await asked.compare("POST", "/v1/encode/a", content=content, headers=plain | sdk)
            for name, packed in (
                ("gzip", gzip.compress(content)),
                ("zstd", zstandard.compress(content)),
                ("br", content),
                ("gzip", content),
                ("identity", content),
            ):
                headers = plain | {"Content-Encoding": name}
                await asked.compare("POST", "/v1/encode/a", content=packed, headers=headers)

    play(scenario)


@pytest.mark.parametrize(
    "body",
    [
        {"input": ""},
        {"input": " "},
        {"input": ["ok", ""]},
        {"input": ["ok", "poison"]},
        {"input": [1, 2]},
        {"input": "ok", "encoding_format": "base64"},
        {"input": "ok", "model": "missing"},
        {"input": "ok", "model": ""},
        {"input": "ok", "model": "a\nb"},
        {"input": "ok", "model": ".."},
        {"input": "ok", "model": "./a/../b?c#d%41"},
        {"input": "ok", "model": "é" * 100},
        {"input": "ok", "model": "x" * 15_000},
        {"input": "ok", "model": "/" * 15_000},
        {"input": "ok", "dimensions": 2},
        {"input": "ok", "dimensions": 0},
    ],
    ids=lambda one: json.dumps(one)[:60],
)
def test_openai_s_route_says_the_same_by_a_door(tmp_path, body):
    async def scenario():
        async with both(tmp_path) as asked:
            await asked.compare("POST", "/v1/embeddings", json=body)

    play(scenario)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/encode/",
        "/v1/encode",
        "/v1/encode//a",
        "/v1/encode/..",
        "/v1/encode/%2E%2E/models",
        "/v1/encode/a%0Ab",
        "/v1/encode/a%2Fb",
        "/v1/encode/%C3%A9",
        "/v1/encode/%FF",
        "/v1/encode/a?b=c",
        "/v1/encode/missing",
        "//v1/encode/a",
    ],
)
def test_models_in_paths_are_the_same_by_a_door(tmp_path, path):
    async def scenario():
        async with both(tmp_path) as asked:
            await asked.compare("POST", path, json={"items": [{"text": "x"}]})

    play(scenario)


@pytest.mark.parametrize("accepted", [MSGPACK, JSON])
@pytest.mark.parametrize("num_texts", [1, 3, 150])
def test_messagepack_is_the_same_by_a_door(tmp_path, num_texts, accepted):
    async def scenario():
        body = wire.EncodeRequest(items=[wire.Item(text=str(n)) for n in range(num_texts)])
        headers = {"Content-Type": MSGPACK, "Accept": accepted}
        given = {"content": encode_body(body, MSGPACK), "headers": headers}
        async with both(tmp_path) as asked:
            answer = await asked.compare("POST", "/v1/encode/a", **given)
            assert answer.headers["content-type"] == accepted

    play(scenario)


@pytest.mark.parametrize("accepted", ["gzip", "zstd", "gzip;q=0.5, zstd;q=0.1", "br"])
@pytest.mark.parametrize("num_texts", [1, 150])
def test_answers_are_compressed_as_without_a_door(tmp_path, num_texts, accepted):
    async def scenario():
        headers = {"Accept-Encoding": accepted}
        body = {"model": "a" * 1_000, "input": [str(n) for n in range(num_texts)]}
        async with both(tmp_path) as asked:
            answer = await asked.compare("POST", "/v1/embeddings", json=body, headers=headers)
            assert ("content-encoding" in answer.headers) == (accepted != "br")

    play(scenario)


@pytest.mark.parametrize("num_texts", [1, 3, 150])
@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_large_answers_come_in_pieces_as_without_a_door(tmp_path, monkeypatch, num_texts, accepted):
    monkeypatch.setattr(bodies, "LARGE_BYTES", 1)

    async def scenario():
        headers = {"Accept-Encoding": accepted}
        body = {"items": [{"text": str(n)} for n in range(num_texts)]}
        async with both(tmp_path) as asked:
            given = {"json": body, "headers": headers}
            await asked.compare("POST", "/v1/encode/a", **given)
            for client in (asked.straight, asked.door):
                answer = await client.post("/v1/encode/a", **given)
                assert answer.headers["transfer-encoding"] == "chunked"

    play(scenario)


def test_who_leaves_says_so_by_a_door_too(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            asked.activity.is_draining = True
            for path in ("/healthz", "/readyz", "/health", "/v1/models/toy", "/v1/rerank"):
                await asked.compare("GET", path)
            for path in ("/v1/rerank", "/v1/score/a"):
                await asked.compare("POST", path, json=BODIES[path])
            for path in ("/v1/embeddings", "/embed"):
                # It is read here, and so has the headers of what is read.
                told = [await read(one, "POST", path, json=BODIES[path]) for one in asked.clients]
                assert told[0].content == told[1].content
                for one in told:
                    assert (one.status, one.headers["retry-after"]) == (503, "1")

    play(scenario)


@pytest.mark.parametrize("num_bytes", [300_000, MAX_BODY_BYTES + 300_000])
def test_a_body_in_pieces_is_handed_on_while_it_comes(tmp_path, num_bytes):
    content = json.dumps({"items": [{"text": "x" * 9_000}] * (num_bytes // 9_000)}).encode()

    async def pieces():
        for start in range(0, len(content), 50_000):
            yield content[start : start + 50_000]

    async def scenario():
        async with both(tmp_path) as asked:
            for sent in (content, pieces):
                told = []
                for client in asked.clients:
                    given = sent if sent is content else sent()
                    headers = {"Content-Type": JSON}
                    told.append(
                        await read(client, "POST", "/v1/encode/a", content=given, headers=headers)
                    )
                assert told[0] == told[1]
                assert told[0].status == (200 if num_bytes < MAX_BODY_BYTES else 413)

    play(scenario)
