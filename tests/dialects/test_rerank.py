"""`/v1/rerank`, `/v2/rerank` and `/v2/embed` as clients of Cohere and Jina know them."""

import base64

import numpy as np
import pytest

pytestmark = pytest.mark.anyio
DOCUMENTS = ["one two", {"text": "morning coffee"}, "alpha"]
BODY = {"model": "ce", "query": "who wrote it", "documents": DOCUMENTS}


@pytest.mark.parametrize("version", ["1", "2"])
async def test_documents_come_most_relevant_first(clients, version):
    for client in clients:
        body = BODY | {"top_n": 2, "return_documents": True}
        answer = await client.post(f"/v{version}/rerank", json=body)
        found = answer.json()
        scores = [one["relevance_score"] for one in found["results"]]
        assert len(scores) == 2 and scores == sorted(scores, reverse=True)
        texts = ["one two", "morning coffee", "alpha"]
        assert all(one["document"]["text"] == texts[one["index"]] for one in found["results"])
        assert found["meta"]["api_version"] == {"version": version}
        tokens = found["usage"]["total_tokens"]
        assert found["meta"]["billed_units"] == {"search_units": 1, "input_tokens": tokens}
        assert int(answer.headers["x-sie-units-input-tokens"]) == tokens > 0
        plain = (await client.post(f"/v{version}/rerank", json=BODY)).json()
        assert not any("document" in one for one in plain["results"])


async def test_raw_scores_are_the_logits_of_the_same_order(clients):
    """Case T61, of the route; what a checkpoint says of its activation is tested there."""
    for client in clients:
        plain = (await client.post("/v1/rerank", json=BODY)).json()
        raw = (await client.post("/v1/rerank", json=BODY | {"raw_scores": True})).json()
        assert (plain["score_type"], raw["score_type"]) == ("probability", "logit")
        for one, other in zip(plain["results"], raw["results"], strict=True):
            assert one["index"] == other["index"]
            expected = 1 / (1 + np.exp(-other["relevance_score"]))
            assert one["relevance_score"] == pytest.approx(expected, rel=1e-4)


async def test_each_version_has_its_own_form_of_error(clients):
    for client in clients:
        words = "documents: List should have at least 1 item after validation, not 0"
        first = (await client.post("/v1/rerank", json=BODY | {"documents": []})).json()
        assert first["message"] == first["detail"] == words
        assert first["error"] == {"code": "INVALID_INPUT", "message": words}
        second = (await client.post("/v2/rerank", json=BODY | {"documents": []})).json()
        assert second["message"] == words
        assert set(second) == {"id", "message"}


async def test_a_field_that_nothing_reads_is_named(clients):
    for client in clients:
        answer = await client.post("/v1/rerank", json=BODY | {"rank_feilds": ["a"], "b": 1})
        assert answer.headers["x-sie-ignored-fields"] == "b,rank_feilds"


async def test_embed_gives_every_form_that_is_asked_for(clients):
    kinds = ["float", "int8", "ubinary", "base64"]
    body = {"model": "m3", "texts": ["morning coffee", "alpha " * 400], "embedding_types": kinds}
    for client in clients:
        answer = await client.post("/v2/embed", json=body | {"input_type": "search_document"})
        found = answer.json()
        assert set(found["embeddings"]) == set(kinds)
        assert np.shape(found["embeddings"]["ubinary"]) == (2, 4)
        assert np.shape(found["embeddings"]["int8"]) == (2, 32)
        for row, code in zip(
            found["embeddings"]["float"], found["embeddings"]["base64"], strict=True
        ):
            assert (np.frombuffer(base64.b64decode(code), "<f4") == np.float32(row)).all()
        assert found["truncated"] == [1]
        assert answer.headers["x-sie-truncated-items"] == "3"  # once a pass
        refused = await client.post("/v2/embed", json=body | {"truncate": "NONE"})
        assert refused.status_code == 422
        assert refused.headers["x-sie-error-code"] == "INPUT_TOO_LONG"
        assert "texts[1]" in refused.json()["message"] or "items[1]" in refused.json()["message"]
