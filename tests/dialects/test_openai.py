"""`/v1/embeddings` and `/v1/models` as clients of OpenAI know them, on both doors."""

import base64

import httpx2
import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.adapters.token_ids import with_texts
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidInput
from tests.tiny import VOCABULARY, wordpiece

pytestmark = pytest.mark.anyio
TEXTS = ["morning coffee", "alpha beta"]


async def embed(client: httpx2.AsyncClient, given: object, **fields: object) -> dict:
    answer = await client.post("/v1/embeddings", json={"model": "m3", "input": given, **fields})
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def vectors(answer: dict) -> list[list[float]]:
    return [one["embedding"] for one in answer["data"]]


async def test_base64_is_the_float_answer_bit_by_bit(clients):
    """Case T51."""
    for client in clients:
        plain = await embed(client, TEXTS)
        coded = await embed(client, TEXTS, encoding_format="base64", user="someone")
        assert [one["index"] for one in plain["data"]] == [0, 1]
        assert {one["object"] for one in plain["data"]} == {"embedding"}
        for row, code in zip(vectors(plain), vectors(coded), strict=True):
            decoded = np.frombuffer(base64.b64decode(code), "<f4")
            assert (decoded == np.asarray(row, np.float32)).all()


async def test_null_is_what_was_left_out(clients):
    nulls = dict.fromkeys(["encoding_format", "dimensions", "user", "input_type", "truncate"])
    for client in clients:
        assert await embed(client, TEXTS, **nulls) == await embed(client, TEXTS)


async def test_token_ids_stand_for_their_text(clients):
    for client in clients:
        lists = (await client.post("/tokenize", json={"inputs": TEXTS, "model": "m3"})).json()
        ids = [[token["id"] for token in tokens] for tokens in lists]
        plain = [one["id"] for one in lists[0] if not one["special"]]
        expected = await embed(client, TEXTS)
        assert vectors(await embed(client, ids)) == vectors(expected)
        assert (await embed(client, ids))["usage"] == expected["usage"]
        assert vectors(await embed(client, ids[0])) == vectors(expected)[:1]
        # Without special tokens they are the same text.
        assert vectors(await embed(client, plain)) == vectors(expected)[:1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([999_999], "999999 is no token id of m3"),
        ([[0, 1], [-3]], "greater than or equal to 0"),
        ([1, 2, "x"], "valid integer"),
        ([2**70], "no token id of m3"),
        ({"a": 1}, "send a text, token ids, or a list"),
    ],
)
async def test_ids_of_another_tokenizer_are_refused(clients, given, words):
    for client in clients:
        answer = await client.post("/v1/embeddings", json={"model": "m3", "input": given})
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]


def test_ids_that_this_tokenizer_would_not_make_of_a_text_are_refused():
    """Another model's ids may all be in range: they read as a text that has other ids."""
    tokenizer = TextTokenizer(wordpiece())
    (tokens,) = tokenizer.encode(["coffee one"], None, special_tokens=False)
    ids = tokens.ids.tolist()
    request = wire.EncodeRequest(items=[wire.Item(text="a"), wire.Item(input_ids=ids, id="x")])
    assert with_texts(request, tokenizer, "m").items[1] == wire.Item(text="coffee one", id="x")
    piece = VOCABULARY.index("##e")
    for wrong in ([piece, *ids], [VOCABULARY.index("c"), piece + 1000], [0] * 3):
        request = wire.EncodeRequest(items=[wire.Item(text="a"), wire.Item(input_ids=wrong)])
        with pytest.raises(InvalidInput, match=r"items\[1\].*check_embedding_ctx_length=False"):
            with_texts(request, tokenizer, "m")


async def test_dimensions_shorten_and_usage_counts_what_was_read(clients):
    for client in clients:
        answer = await embed(client, TEXTS, dimensions=8)
        assert [len(one) for one in vectors(answer)] == [8, 8]
        counts = [one["num_tokens"] for one in answer["data"]]
        assert answer["usage"] == {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        long = await embed(client, "morning " * 500)
        assert long["data"][0]["truncated"] is True


async def test_errors_have_openai_s_form(clients):
    for client in clients:
        answer = await client.post("/v1/embeddings", json={"model": "no/such", "input": "a"})
        assert answer.status_code in (404, 502)
        assert answer.headers["x-sie-error-code"] == answer.json()["error"]["code"]
        answer = await client.post("/v1/embeddings", json={"model": "m3"})
        assert answer.status_code == 400
        assert answer.json()["error"] == {
            "message": "input: Field required",
            "type": "invalid_request_error",
            "param": None,
            "code": "INVALID_INPUT",
        }


async def test_models_are_listed_for_clients_of_openai_and_of_sie(clients):
    for client in clients:
        listing = (await client.get("/v1/models")).json()
        assert listing["object"] == "list"
        assert {one["id"] for one in listing["data"]} == {one["name"] for one in listing["models"]}
        assert {one["object"] for one in listing["data"]} == {"model"}
        card = (await client.get("/v1/models/m3")).json()
        assert (card["id"], card["object"], card["owned_by"]) == ("m3", "model", "sie-mcp")
