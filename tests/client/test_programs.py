"""The programs' client: shapes, sides, cuts, waits, errors, credentials."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial

import anyio.to_thread
import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.client import AsyncClient, Client, Options
from sie_mcp.errors import (
    DeadlineExceeded,
    InputTooLong,
    InvalidInput,
    ModelLoading,
    NotAuthenticated,
    QueueFull,
    RateLimited,
)
from tests.client.rig import News
from tests.scripted_worker import answers, fails_with, until, vector_of

pytestmark = pytest.mark.anyio

NUMBERS = [str(number) for number in range(300)]
OPTIONS = Options(load_wait_s=60.0, timeout_s=60.0, longest_retry_after_s=0.5)


class Half:
    """One half of the client, called in the same way as the other."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self._client = client

    def __getattr__(self, name: str):
        method = getattr(self._client, name)
        if isinstance(self._client, AsyncClient):
            return method
        return lambda *args, **named: anyio.to_thread.run_sync(partial(method, *args, **named))


@pytest.fixture(params=[AsyncClient, Client])
async def half(request, url) -> AsyncIterator[Half]:
    made = Half(request.param(f"{url}/v1/", api_key="k", options=OPTIONS))
    yield made
    await (made.aclose() if request.param is AsyncClient else made.close())


def encoded(*given: wire.EncodedItem):
    body = wire.EncodeResponse(model="toy", items=list(given))
    return answers(body.model_dump_json(exclude_none=True), content_type="application/json")


# Shapes.


async def test_dense_vectors_are_one_array_in_the_order_sent(half, worker):
    found = await half.encode(NUMBERS, "toy", outputs=["dense"])
    assert found.dense.dtype == np.float32
    np.testing.assert_array_equal(found.dense, [vector_of(text) for text in NUMBERS])
    assert (found.model, found.num_tokens, found.errors) == ("toy", 300, {})
    assert len(worker.seen) == 3
    np.testing.assert_array_equal(await half.embed("7", "toy"), [[7, 1]])


async def test_sparse_vectors_and_token_vectors_have_types_of_their_own(half, worker):
    sparse = wire.Sparse(dims=9, indices=[2, 5], values=[0.5, 1.5])
    tokens = wire.Multivector(token_dims=2, num_tokens=3, values=[[1, 2], [3, 4], [5, 6]])
    worker.always = encoded(wire.EncodedItem(sparse=sparse, multivector=tokens))
    found = await half.encode(["a"], "toy", outputs=("sparse", "multivector"))
    (vector,) = found.sparse
    assert (vector.indices.tolist(), vector.values.tolist(), vector.dims) == ([2, 5], [0.5, 1.5], 9)
    assert (vector.indices.dtype, vector.values.dtype) == (np.int32, np.float32)
    assert [one.shape for one in found.multivector] == [(3, 2)]
    with pytest.raises(InvalidInput, match="no dense vectors, but: sparse, multivector"):
        _ = found.dense


async def test_vectors_of_eight_bits_keep_their_scales(half, worker):
    dense = wire.Dense(dims=2, dtype="int8", values=[-3, 4], scale=0.25)
    worker.always = encoded(wire.EncodedItem(dense=dense))
    found = await half.encode("a", "toy", output_dtype="int8")
    assert found.dense.dtype == np.int8
    np.testing.assert_array_equal(found.dense * found.scales[:, None], [[-0.75, 1.0]])
    assert worker.seen[0].body["params"]["output_dtype"] == "int8"


async def test_scores_keep_their_places_and_ranks_their_texts(half):
    found = await half.score("q", ["3", "30", "10"], "toy")
    assert (found.scores.tolist(), found.score_type) == ([3.0, 30.0, 10.0], "logit")
    ranked = await half.rerank("q", ["3", "30", "10", "30"], "toy", top_n=3)
    assert [(one.index, one.score, one.text) for one in ranked] == [
        (1, 30.0, "30"), (3, 30.0, "30"), (2, 10.0, "10"),
    ]  # fmt: skip


async def test_entities_come_back_by_item(half, worker):
    found = await half.extract(["Ada"], ["name"], "toy", threshold=0.25)
    assert [(one.text, one.start, one.end) for one in found.items[0].entities] == [("Ada", 0, 3)]
    params = worker.seen[0].body["params"]
    assert (params["labels"], params["options"]["threshold"]) == (["name"], 0.25)


async def test_the_best_label_comes_with_all_scores(half, worker):
    labels = [
        wire.Classification(label=one, score=score) for one, score in [("a", 0.2), ("b", 0.7)]
    ]
    body = wire.ExtractResponse(model="toy", items=[wire.ExtractedItem(classifications=labels)])
    worker.script = [answers(body.model_dump_json(), content_type="application/json")]
    (found,) = await half.classify("x", ["a", "b"], "toy", multi_label=True)
    assert (found.label, found.score, found.scores) == ("b", 0.7, {"b": 0.7, "a": 0.2})
    assert worker.seen[0].body["params"]["options"]["multi_label"] is True
    with pytest.raises(InvalidInput, match="name a model that classifies"):
        await half.classify("x", ["a", "b"], "toy")


async def test_models_are_listed_and_described(half):
    assert [card.name for card in (await half.models()).models] == ["toy"]
    assert (await half.model("toy")).labels == ["name"]


# What is sent.


@pytest.mark.parametrize(("side", "is_query"), [("query", True), ("document", False), (None, None)])
async def test_a_side_is_the_items_role(half, worker, side, is_query):
    options = wire.EncodeOptions(normalize=False)
    await half.encode(["a"], "toy", side=side, dimensions=2, options=options)
    sent = worker.seen[0].body["params"]["options"]
    assert (sent.get("is_query"), sent["dimensions"], sent["normalize"]) == (is_query, 2, False)


async def test_a_key_goes_along_and_a_refusal_of_it_has_its_type(half, worker):
    worker.script = [fails_with(NotAuthenticated("no such key"))]
    with pytest.raises(NotAuthenticated, match="no such key"):
        await half.encode(["a"], "toy")
    assert worker.seen[0].headers["authorization"] == "Bearer k"


async def test_lists_are_cut_by_items_and_by_bytes(url, worker):
    async with AsyncClient(url, options=Options(max_items=3, max_request_bytes=40)) as client:
        found = await client.embed(["1"] * 5 + ["2" * 8] * 2, "toy")
    assert found.shape == (7, 2)
    sent = sorted(seen.texts for seen in worker.seen)
    assert sent == [["1", "1", "1"], ["1", "1", "22222222"], ["22222222"]]


async def test_all_calls_together_have_so_many_requests_open(url, worker):
    gate = asyncio.Event()
    options = Options(max_items=1, max_concurrency=2)
    async with AsyncClient(url, options=options) as client, anyio.create_task_group() as group:
        worker.script = [worker.hold(gate)] * 2
        for _ in range(4):
            group.start_soon(client.embed, NUMBERS[:5], "toy")
        await until(lambda: len(worker.seen) == 2)
        # What is no work is not counted; a third request would have come before it.
        await client.models()
        assert len(worker.seen) == 3
        gate.set()
    assert len(worker.seen) == 21


@pytest.mark.parametrize("name", Options.__slots__)
def test_limits_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Options(**{name: 0})


# Waits and errors.


async def test_a_load_is_waited_for_and_told_of(half, worker):
    worker.script = [fails_with(ModelLoading("loading toy: 40 %"), retry_after="2")] * 2
    heard = []
    await half.encode(["a"], "toy", on_progress=lambda *news: heard.append(news))
    assert [news[:2] for news in heard] == [(0, 1)] * 2
    assert all(re.fullmatch(r"loading toy: 40 % \(\d+ s\)", news[2]) for news in heard)
    assert len(worker.seen) == 3


async def test_progress_may_be_awaited(url):
    news = News()
    async with AsyncClient(url, on_progress=news) as client:
        await client.embed(NUMBERS, "toy")
    assert news.heard[-1] == (300, 300, "encode toy")


@pytest.mark.parametrize("error", [QueueFull("full"), RateLimited("too many")])
async def test_a_pause_that_was_asked_for_is_kept_to(half, worker, error, monkeypatch):
    pauses = []
    real = anyio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)

    monkeypatch.setattr("sie_mcp.client.sending.anyio.sleep", note)
    worker.script = [fails_with(error, retry_after="0.4")] * 2
    await half.encode(["a"], "toy")
    # The waits for news are of other lengths.
    kept = [pause for pause in pauses if pause != 2.0]
    assert 0.4 <= kept[0] <= 0.4 * 1.25
    assert 0.8 <= kept[1] <= 0.8 * 1.25


async def test_a_pause_that_is_too_long_is_not_cut_short_but_raised(half, worker):
    worker.script = [fails_with(RateLimited("too many"), retry_after="30")]
    with pytest.raises(RateLimited) as raised:
        await half.encode(["a"], "toy")
    assert raised.value.retry_after_s == 30.0
    assert len(worker.seen) == 1


async def test_a_deadline_is_for_the_whole_call(half, worker):
    worker.always = fails_with(ModelLoading("loading"))
    # Where the machine is busy, the first may be over before the worker hears of a call at all.
    for deadline_s in (0.2, 2.0, 8.0):
        with pytest.raises(DeadlineExceeded, match=rf"deadline_s={deadline_s:g}\b"):
            await half.encode(["a"], "toy", deadline_s=deadline_s)
        if worker.seen:
            break
    assert float(worker.seen[0].headers["x-sie-timeout"]) <= deadline_s


async def test_an_item_that_failed_is_raised_with_its_type_or_kept(half, worker):
    error = wire.ItemError(code=InputTooLong.code, message="600 tokens")
    good = wire.EncodedItem(dense=wire.Dense(dims=2, values=[1.0, 2.0]))
    worker.always = encoded(good, wire.EncodedItem(error=error))
    with pytest.raises(InputTooLong, match=r"items\[1\]: 600 tokens"):
        await half.encode(["a", "b"], "toy")
    found = await half.encode(["a", "b"], "toy", keep_errors=True)
    np.testing.assert_array_equal(found.dense, [[1, 2], [np.nan, np.nan]])
    assert [type(one) for one in found.errors.values()] == [InputTooLong]
    assert list(found.errors) == [1]


async def test_an_empty_list_is_refused(half, worker):
    with pytest.raises(InvalidInput, match="send at least one"):
        await half.encode([], "toy")
    assert worker.seen == []
