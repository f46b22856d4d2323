"""vLLM's `/score` and `/pooling`, and which side texts are on any route."""

import numpy as np
import pytest

pytestmark = pytest.mark.anyio
TEXTS = ["morning coffee", "alpha beta"]


async def test_one_text_is_scored_with_each_or_each_with_its_own(clients):
    for client in clients:

        async def scores(first: object, second: object, client=client) -> list[float]:
            body = {"model": "ce", "text_1": first, "text_2": second}
            answer = (await client.post("/score", json=body)).json()
            assert [one["index"] for one in answer["data"]] == list(range(len(answer["data"])))
            assert answer["usage"]["total_tokens"] > 0
            return [one["score"] for one in answer["data"]]

        one, two = await scores("who", TEXTS)
        assert await scores(["who", "who"], TEXTS) == pytest.approx([one, two])
        assert await scores("who", TEXTS[1]) == pytest.approx([two])
        wrong = await client.post(
            "/v1/score", json={"model": "ce", "text_1": ["a", "b"], "text_2": ["a", "b", "c"]}
        )
        assert wrong.status_code == 400
        assert wrong.json()["error"]["code"] == 400
        assert "2 texts and text_2 has 3" in wrong.json()["error"]["message"]


async def test_pooling_gives_one_vector_or_one_a_token(clients):
    for client in clients:
        body = {"model": "m3", "input": TEXTS}
        whole = (await client.post("/pooling", json=body | {"task": "embed"})).json()
        assert [np.shape(one["data"]) for one in whole["data"]] == [(32,), (32,)]
        rows = (await client.post("/pooling", json=body | {"task": "token_embed"})).json()
        assert all(np.ndim(one["data"]) == 2 for one in rows["data"])


ROUTES = {
    "/v1/encode/m3": (
        {"items": [{"text": "alpha"}]},
        lambda one: one["items"][0]["dense"]["values"],
    ),
    "/v1/embeddings": ({"model": "m3", "input": "alpha"}, lambda one: one["data"][0]["embedding"]),
    "/v2/embed": ({"model": "m3", "texts": ["alpha"]}, lambda one: one["embeddings"]["float"][0]),
    "/embed": ({"model": "m3", "inputs": "alpha"}, lambda one: one[0]),
    "/pooling": ({"model": "m3", "input": "alpha"}, lambda one: one["data"][0]["data"]),
}


@pytest.mark.parametrize("path", ROUTES)
async def test_the_side_is_a_header_s_or_the_body_s_which_wins(clients, path):
    body, read = ROUTES[path]
    for client in clients:

        async def vector(named: str | None, client=client, **fields: object) -> list[float]:
            headers = {} if named is None else {"X-SIE-Input-Type": named}
            answer = await client.post(path, json=body | fields, headers=headers)
            assert answer.status_code == 200, answer.text
            found: list[float] = read(answer.json())
            return found

        query, document = await vector("query"), await vector("document")
        assert not np.allclose(query, document, atol=1e-3)
        assert np.allclose(await vector("search_query"), query, atol=1e-5)
        if path == "/v1/encode/m3":
            mine = {"params": {"options": {"is_query": False}}}
        else:
            mine = {"input_type": "document"}
        assert np.allclose(await vector("query", **mine), document, atol=1e-5)
        wrong = await client.post(path, json=body, headers={"X-SIE-Input-Type": "both"})
        assert wrong.status_code == (422 if path == "/embed" else 400)
        assert "X-SIE-Input-Type 'both' is none of query, document" in wrong.text
