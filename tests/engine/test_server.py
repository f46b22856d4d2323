"""The worker's routes: forms, limits, errors, the OpenAI and Cohere shapes."""

import base64

import msgpack
import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.codec import MSGPACK, decode_body, encode_body, media_type_of
from sie_mcp.dialects.openai import EmbeddingsRequest, to_encode
from sie_mcp.engine.server import Activity
from tests.engine.conftest import http, play, running
from tests.toys import toy_vector


def test_encode_answers_in_json_and_in_messagepack(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            body = wire.EncodeRequest(items=[wire.Item(text="hello", id="h")])
            plain = await client.post(
                "/v1/encode/org/model", content=encode_body(body, "application/json")
            )
            assert plain.status_code == 200
            assert plain.json()["model"] == "org/model"
            assert plain.json()["items"][0]["dense"]["values"] == toy_vector("hello").tolist()
            packed = await client.post(
                "/v1/encode/org/model",
                content=encode_body(body, MSGPACK),
                headers={"Content-Type": MSGPACK, "Accept": MSGPACK},
            )
            raw = msgpack.unpackb(packed.content, strict_map_key=False)
            assert raw["items"][0]["dense"]["values"][b"nd"] is True
            values = decode_body(packed.content, MSGPACK)["items"][0]["dense"]["values"]
            assert isinstance(values, np.ndarray)
            assert (values == toy_vector("hello")).all()
            assert packed.headers["x-sie-server-version"]

    play(scenario)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"input": ""}, 400),
        ({"input": " "}, 400),
        ({"input": []}, 400),
        ({"input": [""]}, 400),
        ({"input": ["ok", ""]}, 400),
        ({"input": [[]]}, 400),
        ({"input": None}, 400),
        ({}, 400),
        ({"input": "ok"}, 200),
    ],
)
def test_empty_inputs_are_refused_by_one_rule(tmp_path, body, status):
    """Case T24; a following normal request succeeds."""

    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            answer = await client.post("/v1/embeddings", json={"model": "a", **body})
            assert answer.status_code == status
            if status == 400:
                assert answer.json()["error"]["code"] == "INVALID_INPUT"
                assert answer.headers["x-sie-error-code"] == "INVALID_INPUT"
            after = await client.post("/v1/embeddings", json={"model": "a", "input": ["fine"]})
            assert after.status_code == 200

    play(scenario)


def test_embeddings_have_openai_s_shape_in_both_encodings(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            body = {"model": "a", "input": ["x", "y"], "user": "someone"}
            plain = (await client.post("/v1/embeddings", json=body)).json()
            assert plain["object"] == "list"
            assert [row["index"] for row in plain["data"]] == [0, 1]
            assert plain["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
            coded = await client.post("/v1/embeddings", json=body | {"encoding_format": "base64"})
            raw = base64.b64decode(coded.json()["data"][1]["embedding"])
            assert (np.frombuffer(raw, "<f4") == toy_vector("y")).all()

    play(scenario)


@pytest.mark.parametrize(
    ("input_type", "is_query"), [(None, None), ("query", True), ("document", False)]
)
def test_an_embedding_has_the_role_that_it_is_given_or_none(input_type, is_query):
    """Case T11 in OpenAI's shape."""
    body = EmbeddingsRequest(input="cat", input_type=input_type)
    (request,) = to_encode(body)
    assert request.params.options.is_query is is_query


def test_a_failed_input_fails_the_openai_request_by_name(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            body = {"model": "a", "input": ["x", "poison"]}
            answer = await client.post("/v1/embeddings", json=body)
            assert answer.status_code == 500
            assert "input[1]" in answer.json()["error"]["message"]

    play(scenario)


def test_rerank_has_cohere_s_shape(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            body = {
                "model": "a",
                "query": "q",
                "documents": ["x", {"text": "y"}, "z"],
                "top_n": 2,
                "return_documents": True,
            }
            answer = (await client.post("/v1/rerank", json=body)).json()
            assert len(answer["results"]) == 2
            first, second = answer["results"]
            assert first["relevance_score"] >= second["relevance_score"]
            assert first["document"]["text"] == ["x", "y", "z"][first["index"]]
            assert answer["score_type"] == "similarity"

    play(scenario)


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "words"),
    [
        ("/v1/encode/a", b"{", {}, 400, "not valid"),
        ("/v1/encode/a", b"[]", {}, 400, "body"),
        ("/v1/encode/a", b'{"items":[{"txt":"x"}]}', {}, 400, "items.0.txt"),
        ("/v1/encode/a", b'{"items":[{"text":"\\ud800"}]}', {}, 400, "items.0.text"),
        ("/v1/encode/a", b"\xc1", {"Content-Type": MSGPACK}, 400, "not valid"),
        ("/v1/encode/a", b"x", {"Content-Type": "text/plain"}, 400, "content type"),
        ("/v1/encode/missing", b'{"items":[{"text":"x"}]}', {}, 404, "no model"),
        (
            "/v1/encode/a",
            b'{"items":[{"text":"%s"}]}' % (b"x" * 200_000),
            {},
            413,
            "max_body_bytes",
        ),
        ("/v1/encode/a", b'{"items":[{"text":"x"}]}', {"X-SIE-Load-Wait": "soon"}, 400, "seconds"),
    ],
)
def test_a_wrong_body_is_a_clear_error_never_a_500(tmp_path, path, content, headers, status, words):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            answer = await client.post(path, content=content, headers=headers)
            assert answer.status_code == status
            error = decode_body(answer.content, media_type_of(answer.headers["content-type"]))
            assert words in error["error"]["message"]

    play(scenario)


def test_a_loading_model_is_503_with_retry_after(tmp_path, toy_loader):
    async def scenario():
        toy_loader.gate.clear()
        async with running(tmp_path, toy_loader) as rig, http(rig) as client:
            answer = await client.post(
                "/v1/encode/a",
                json={"items": [{"text": "x"}]},
                headers={"X-SIE-Load-Wait": "0.05"},
            )
            assert answer.status_code == 503
            assert answer.headers["x-sie-error-code"] == "MODEL_LOADING"
            assert float(answer.headers["retry-after"]) > 0
            toy_loader.gate.set()

    play(scenario)


def test_probes_models_and_metrics_answer(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            await client.post("/v1/encode/a", json={"items": [{"text": "x"}]})
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/readyz")).status_code == 200
            listing = (await client.get("/v1/models")).json()
            assert {card["name"] for card in listing["models"]} == {"toy", "a"}
            assert listing["memory"]["resident_bytes"] == 10
            assert (await client.get("/v1/models/a")).json()["loaded"] is True
            assert (await client.get("/v1/models/nobody")).status_code == 404
            text = (await client.get("/metrics")).text
            assert "sie_requests_total" in text

    play(scenario)


def test_a_worker_that_leaves_is_alive_but_not_ready_and_refuses_with_a_time_to_retry(tmp_path):
    async def scenario():
        activity = Activity()
        async with running(tmp_path) as rig, http(rig, activity=activity) as client:
            activity.is_draining = True
            assert (await client.get("/healthz")).status_code == 200
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
            refused = await client.post("/v1/encode/a", json={"items": [{"text": "x"}]})
            assert refused.status_code == 503
            assert refused.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
            assert float(refused.headers["retry-after"]) > 0
            assert (await client.get("/metrics")).status_code == 200

    play(scenario)


def test_a_worker_that_failed_is_neither_alive_nor_ready(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            rig.device.fail("a reason")
            for probe in ("/healthz", "/readyz"):
                answer = await client.get(probe)
                assert (answer.status_code, answer.json()["status"]) == (503, "failed")

    play(scenario)


def test_sie_s_sdk_hears_of_a_failed_item_as_of_a_failed_request(tmp_path):
    """It reads a score from every entry, and ours leave it out where there is none."""

    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            items = [{"text": "fine"}, {"text": "poison"}]
            body = {"query": {"text": "q"}, "items": items}
            plain = await client.post("/v1/score/toy", json=body)
            assert [score.get("score") is None for score in plain.json()["scores"]] == [False, True]
            headers = {"X-SIE-SDK-Version": "0.10.1"}
            for version, spoken in (("0.10.1", "0.10.1"), ("0.3.1", "0.3.1")):
                headers = {"X-SIE-SDK-Version": version}
                refused = await client.post("/v1/score/toy", json=body, headers=headers)
                assert refused.status_code == 500
                assert refused.json()["error"]["code"] == "INFERENCE_ERROR"
                assert refused.headers["x-sie-server-version"] == spoken

    play(scenario)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "NOT_FOUND"),
        ("POST", "/v1/encode/a%0Ab", 404, "NOT_FOUND"),
        ("GET", "/v1/embeddings", 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_what_no_route_takes_is_a_typed_error(tmp_path, method, path, status, code):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            answer = await client.request(method, path)
            assert answer.status_code == status
            assert answer.headers["x-sie-error-code"] == answer.json()["error"]["code"] == code
            assert "GET /openapi.json" in answer.json()["error"]["message"]

    play(scenario)


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/models/toy", "/v1/embeddings"])
def test_head_says_what_get_would_say(tmp_path, path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            got, asked = await client.get(path), await client.head(path)
            assert (asked.status_code, asked.content) == (got.status_code, b"")
            assert int(asked.headers["content-length"]) == len(got.content) > 0

    play(scenario)
