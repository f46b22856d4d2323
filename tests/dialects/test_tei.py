"""TEI's routes on both doors: the default model, a field, a header, and TEI's errors."""

import json

import httpx2
import numpy as np
import pytest

from sie_mcp.access.gate import error_response
from sie_mcp.config import load_config
from sie_mcp.engine.main import with_defaults
from sie_mcp.errors import (
    BodyTooLarge,
    DiskFull,
    InferenceError,
    InputTooLong,
    InvalidInput,
    ModelLoadFailed,
    ModelLoading,
    NotAuthenticated,
    OutOfMemory,
    QueueFull,
    RateLimited,
    SettingError,
    WorkerUnavailable,
)
from tests.dialects.rig import worker

pytestmark = pytest.mark.anyio
TEXTS = ["morning coffee", "alpha beta"]


async def test_embed_answers_with_bare_lists_of_the_default_model(clients):
    for client in clients:
        native = await client.post(
            "/v1/encode/m3", json={"items": [{"text": text} for text in TEXTS]}
        )
        expected = [one["dense"]["values"] for one in native.json()["items"]]
        answer = await client.post("/embed", json={"inputs": TEXTS})
        assert answer.headers["x-sie-model"] == "m3"
        np.testing.assert_allclose(answer.json(), expected, rtol=1e-5, atol=1e-6)
        assert np.shape((await client.post("/embed", json={"inputs": "alpha"})).json()) == (1, 32)
        assert answer.headers["x-sie-truncated-items"] == "0"
        short = await client.post("/embed", json={"inputs": "alpha", "dimensions": 8})
        assert np.shape(short.json()) == (1, 8)


async def test_sparse_and_token_vectors_have_tei_s_shape(clients):
    for client in clients:
        sparse = (await client.post("/embed_sparse", json={"inputs": TEXTS})).json()
        assert [set(one[0]) for one in sparse] == [{"index", "value"}] * 2
        rows = (await client.post("/embed_all", json={"inputs": "alpha beta"})).json()
        assert np.shape(rows)[0] == 1 and np.shape(rows)[2] == 32


async def test_similarity_is_the_cosine(clients):
    inputs = {"source_sentence": TEXTS[0], "sentences": [TEXTS[0], TEXTS[1]]}
    for client in clients:
        same, other = (await client.post("/similarity", json={"inputs": inputs})).json()
        vectors = np.array((await client.post("/embed", json={"inputs": TEXTS})).json())
        assert same == pytest.approx(1.0, abs=1e-5)
        assert other == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)


async def test_rerank_takes_texts_and_documents(clients):
    body = {"query": "who", "texts": TEXTS, "return_text": True}
    for client in clients:
        ranks = (await client.post("/rerank", json=body)).json()
        assert all(one["text"] == TEXTS[one["index"]] for one in ranks)
        assert ranks[0]["score"] >= ranks[1]["score"]
        other = (await client.post("/rerank", json={"query": "who", "documents": TEXTS})).json()
        scores = [one["relevance_score"] for one in other["results"]]
        assert scores == pytest.approx([one["score"] for one in ranks])
        both = await client.post("/rerank", json=body | {"documents": TEXTS})
        assert both.status_code == 422
        assert both.json()["error_type"] == "Validation"


async def test_predict_takes_a_text_a_pair_and_a_list_of_either(clients):
    for client in clients:

        async def predict(inputs: object, client=client) -> list:
            answer = await client.post("/predict", json={"inputs": inputs, "model": "nli"})
            assert answer.status_code == 200, answer.text
            found: list = answer.json()
            return found

        single, pair = await predict("alpha"), await predict(["alpha", "beta"])
        for labels in (single, pair):
            assert {one["label"] for one in labels} == {"LABEL_0", "LABEL_1", "LABEL_2"}
            assert sum(one["score"] for one in labels) == pytest.approx(1, abs=1e-4)
            assert labels == sorted(labels, key=lambda one: -one["score"])
        batch = await predict([["alpha"], ["alpha", "beta"], ["alpha"]])
        for found, expected in zip(batch, [single, pair, single], strict=True):
            assert [one["label"] for one in found] == [one["label"] for one in expected]


async def test_tokens_and_their_text_go_both_ways(clients):
    for client in clients:
        body = {"inputs": "morning coffee", "model": "ce"}
        (tokens,) = (await client.post("/tokenize", json=body)).json()
        assert [one["text"] for one in tokens] == ["[CLS]", "morning", "coffee", "[SEP]"]
        assert [one["special"] for one in tokens] == [True, False, False, True]
        assert [(one.get("start"), one.get("stop")) for one in tokens[1:3]] == [(0, 7), (8, 14)]
        bare = {**body, "add_special_tokens": False}
        assert len((await client.post("/tokenize", json=bare)).json()[0]) == 2
        ids = [one["id"] for one in tokens]
        texts = (await client.post("/decode", json={"ids": [ids], "model": "ce"})).json()
        assert texts == ["morning coffee"]
        wrong = await client.post("/decode", json={"ids": [10**6], "model": "ce"})
        assert (wrong.status_code, wrong.json()["error_type"]) == (422, "Validation")


async def test_info_describes_the_model_that_is_named(clients):
    for client in clients:
        await client.post("/embed", json={"inputs": "alpha"})
        info = (await client.get("/info")).json()
        assert info["model_id"] == "m3"
        assert info["model_type"] == {"embedding": {"pooling": "cls"}}
        assert info["max_client_batch_size"] == 4096
        other = (await client.get("/info", headers={"X-SIE-Model": "nli"})).json()
        assert "classifier" in other["model_type"]


async def test_a_header_names_the_model_and_the_body_wins(clients):
    named = {"X-SIE-Model": "ce"}
    for client in clients:
        refused = await client.post("/embed", json={"inputs": "alpha"}, headers=named)
        assert refused.status_code == 422
        assert "ce can score, not encode" in refused.json()["error"]
        body = {"inputs": "alpha", "model": "m3"}
        assert (await client.post("/embed", json=body, headers=named)).status_code == 200


async def test_errors_have_tei_s_form(clients):
    for client in clients:
        answer = await client.post(
            "/embed", json={"inputs": "morning " * 500, "truncate": False, "model": "m3"}
        )
        assert answer.status_code == 422
        assert set(answer.json()) == {"error", "error_type"}
        assert answer.json()["error_type"] == "Validation"
        assert answer.headers["x-sie-error-code"] == "INPUT_TOO_LONG"
        empty = await client.post("/embed", json={"inputs": " "})
        assert (empty.status_code, empty.json()["error_type"]) == (422, "Validation")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidInput("x"), 422, "Validation"),
        (InputTooLong("x"), 422, "Validation"),
        (BodyTooLarge("x"), 413, "Validation"),
        (QueueFull("x"), 429, "Overloaded"),
        (RateLimited("x"), 429, "Overloaded"),
        (OutOfMemory("x"), 429, "Overloaded"),
        (InferenceError("x"), 424, "Backend"),
        (ModelLoadFailed("x"), 424, "Backend"),
        (DiskFull("x"), 424, "Backend"),
        (ModelLoading("x"), 503, "Unhealthy"),
        (WorkerUnavailable("x"), 503, "Unhealthy"),
        (NotAuthenticated("x"), 401, "Validation"),
    ],
)
def test_errors_have_tei_s_statuses_on_its_routes_alone(error, status, kind):
    answer = error_response(error, "/embed")
    assert (answer.status_code, json.loads(answer.body)["error_type"]) == (status, kind)
    assert answer.headers["x-sie-error-code"] == error.code
    assert error_response(error, "/v1/embeddings").status_code == error.status


async def test_a_body_over_the_limit_is_413_on_every_route(folder, catalogue):
    async with (
        worker(folder, catalogue, max_body_bytes=1_024) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        for path in ("/embed", "/v1/embeddings"):
            answer = await client.post(path, json={"inputs": "x" * 2_000})
            assert answer.status_code == 413
            assert "max_body_bytes" in answer.text


async def test_a_setting_names_the_default_models(folder, catalogue):
    changed = with_defaults(catalogue, ("score=nli", "encode=ner"))
    async with (
        worker(folder, changed) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        refused = await client.post("/embed", json={"inputs": "alpha"})
        assert "ner can extract, not encode" in refused.json()["error"]
        assert (await client.get("/info")).json()["model_id"] == "ner"
        listing = (await client.get("/v1/models")).json()
        assert listing["defaults"] == {"encode": "ner", "score": "nli", "extract": "nli"}


@pytest.mark.parametrize("wrong", ["m3", "embed=m3", "encode="])
def test_a_default_that_is_of_no_kind_stops_the_start(wrong):
    with pytest.raises(SettingError, match="is not kind=model with a kind of encode, score"):
        load_config(default_models=wrong)
