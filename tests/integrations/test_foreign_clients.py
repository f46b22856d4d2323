"""Clients of others, unmodified: OpenAI's for embeddings, Cohere's for ranks and embeddings."""

import base64

import httpx2
import numpy as np
import pytest

from tests.integrations.collection import MINILM
from tests.running import dense, load, scores

TEXTS = ["A man is eating food.", "coffee", "Zürich – naïve café, 北京"]


@pytest.fixture(scope="module")
def expected(pulled):
    return dense(load(pulled(MINILM)), TEXTS)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_openais_client_gets_the_engines_vectors(live, expected, encoding):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{live}/v1", api_key="none") as client:
        answer = client.embeddings.create(model=MINILM, input=TEXTS, encoding_format=encoding)
    found = [one.embedding for one in answer.data]
    if encoding == "base64":
        found = [np.frombuffer(base64.b64decode(one), dtype="<f4") for one in found]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert answer.usage.total_tokens > 0


def test_openais_client_names_what_is_wrong(live):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{live}/v1", api_key="none") as client:
        with pytest.raises(openai.NotFoundError, match="no-such-model"):
            client.embeddings.create(model="no-such-model", input="x")
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model=MINILM, input=[""])


def _cohere(live: str, route: str):
    """Return Cohere's client, where the route that it asks is there."""
    cohere = pytest.importorskip("cohere")
    if httpx2.post(f"{live}{route}", json={}).status_code in (404, 405):
        pytest.skip(f"this server has no {route}")
    return cohere.ClientV2(api_key="none", base_url=live)


def test_coheres_client_gets_the_engines_ranks(live, pulled):
    answer = _cohere(live, "/v2/rerank").rerank(model=MINILM, query="eating", documents=TEXTS)
    engines = scores(load(pulled(MINILM)), "eating", TEXTS)
    assert [one.index for one in answer.results] == list(np.argsort(-np.array(engines)))
    found = [one.relevance_score for one in answer.results]
    np.testing.assert_allclose(found, sorted(engines, reverse=True), atol=1e-5)


@pytest.mark.parametrize("input_type", ["search_document", "search_query"])
def test_coheres_client_gets_the_engines_vectors(live, expected, input_type):
    answer = _cohere(live, "/v2/embed").embed(
        model=MINILM, texts=TEXTS, input_type=input_type, embedding_types=["float"]
    )
    np.testing.assert_allclose(answer.embeddings.float_, expected, atol=1e-5)


def test_coheres_older_client_ranks_over_v1(live, pulled):
    cohere = pytest.importorskip("cohere")
    client = cohere.Client(api_key="none", base_url=live)
    answer = client.rerank(model=MINILM, query="eating", documents=TEXTS, top_n=2)
    engines = np.array(scores(load(pulled(MINILM)), "eating", TEXTS))
    assert [one.index for one in answer.results] == list(np.argsort(-engines)[:2])
