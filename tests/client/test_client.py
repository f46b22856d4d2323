"""The client of the engine, over a real socket: lists, order, names, progress, cancellation."""

import asyncio
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from sie_mcp import wire
from sie_mcp.chunks import CHUNK_CHARS, CHUNK_ITEMS, chunks
from sie_mcp.client import EngineClient
from sie_mcp.connection import ANYTHING, Address, OneWorker, Want
from sie_mcp.errors import InvalidInput
from tests.client.rig import News, numbered
from tests.scripted_worker import answers, fails_with, until, vector_of

pytestmark = pytest.mark.anyio


# Lists.


async def test_a_long_list_is_sent_in_chunks_and_answered_in_order(client, worker):
    answer = await client.encode("toy", numbered(300))
    assert sorted(len(seen.texts) for seen in worker.seen) == [300 - 2 * CHUNK_ITEMS, 128, 128]
    vectors = [item.dense.values.tolist() for item in answer.items]
    assert vectors == [vector_of(str(number)) for number in range(300)]
    assert answer.usage.input_tokens == 300


async def test_order_does_not_depend_on_which_chunk_is_answered_first(client, worker):
    gate = asyncio.Event()
    worker.script = [worker.hold(gate)]
    async with anyio.create_task_group() as group:

        async def call() -> None:
            answer = await client.extract("toy", numbered(300))
            texts = [item.entities[0].text for item in answer.items]
            assert texts == [str(number) for number in range(300)]

        group.start_soon(call)
        await until(lambda: len(worker.seen) == 3)
        gate.set()


async def test_scores_of_all_chunks_are_ranked_together(client):
    scored = [wire.Item(id=f"my-{n}" if n % 2 else None, text=str(n % 150)) for n in range(300)]
    answer = await client.score("toy", wire.Item(text="q"), scored)
    assert [score.rank for score in answer.scores] == list(range(300))
    # The highest first, ties by place.
    expected = sorted(range(300), key=lambda n: (-(n % 150), n))
    assert [score.index for score in answer.scores] == expected
    for score in answer.scores:
        assert score.item_id == (scored[score.index].id or f"item-{score.index}")


async def test_an_item_without_a_score_ranks_last(client, worker):
    error = wire.ItemError(code="INFERENCE_ERROR", message="no")
    scores = [
        wire.Score(item_id="item-0", index=0, score=None, rank=1, error=error),
        wire.Score(item_id="item-1", index=1, score=-5.0, rank=0),
    ]
    body = wire.ScoreResponse(model="toy", scores=scores, score_type="logit")
    worker.script = [answers(body.model_dump_json(), content_type="application/json")]
    answer = await client.score("toy", wire.Item(text="q"), numbered(2))
    assert [score.index for score in answer.scores] == [1, 0]
    assert answer.scores[1].error == error


async def test_progress_counts_items_and_a_short_last_chunk_exactly(client):
    news = News()
    await client.encode("toy", numbered(300), progress=news)
    done = [done for done, _, _ in news.heard]
    assert done == sorted(done)
    assert done[-1] == 300
    assert {total for _, total, _ in news.heard} == {300}


async def test_a_list_of_one_chunk_reports_no_progress(client):
    news = News()
    await client.encode("toy", numbered(CHUNK_ITEMS), progress=news)
    assert news.heard == []


@pytest.mark.parametrize("primitive", ["encode", "extract", "score"])
async def test_an_empty_list_is_refused_before_anything_is_sent(client, worker, primitive):
    with pytest.raises(InvalidInput, match="items is empty; send at least one"):
        if primitive == "score":
            await client.score("toy", wire.Item(text="q"), [])
        else:
            await (client.encode if primitive == "encode" else client.extract)("toy", [])
    assert worker.seen == []


@given(sizes=st.lists(st.integers(0, CHUNK_CHARS + 5), min_size=1, max_size=400))
def test_chunks_hold_every_item_once_and_keep_both_limits(sizes):
    # Real texts of this size would be slow, and only their length counts.
    sized = [wire.Item.model_construct(text=range(size)) for size in sizes]
    cut = chunks(sized)
    assert [item for chunk in cut for item in chunk] == sized
    for chunk in cut:
        assert 1 <= len(chunk) <= CHUNK_ITEMS
        assert len(chunk) == 1 or sum(len(item.text) for item in chunk) <= CHUNK_CHARS


async def test_the_first_failure_ends_the_other_chunks(client, worker):
    gate = asyncio.Event()
    hold = worker.hold(gate)

    async def fail_last(request: Request) -> Response | None:
        if len(worker.seen) < 3:
            return await hold(request)
        return await fails_with(InvalidInput("items[3].text is empty"))(request)

    worker.always = fail_last
    with pytest.raises(InvalidInput, match=r"items\[3\]"):
        await client.encode("toy", numbered(300))
    await until(lambda: worker.num_hung_up == 2)


# Names.


@pytest.mark.parametrize(
    "name",
    ["org/name", "/abs/path", "a b", "a?b#c", "100%", "a%2Fb", "ä/ü", "x/../y", "..", "c:\\d"],
)
async def test_a_model_keeps_its_name_on_its_way(client, worker, name):
    await client.encode(name, numbered(1))
    assert worker.seen[0].model == name
    assert worker.seen[0].path.startswith("/v1/encode/")


async def test_a_relative_path_is_relative_to_this_process(client, worker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await client.encode("./models/mine", numbered(1))
    assert worker.seen[0].model == str(tmp_path / "models" / "mine")


async def test_models_are_listed_and_described(client):
    assert [card.name for card in (await client.models()).models] == ["toy"]
    assert (await client.model("toy")).labels == ["name"]


async def test_a_worker_is_reached_over_a_unix_socket(worker, tmp_path_factory):
    socket = Path(tmp_path_factory.mktemp("s")) / "w"

    class Local(OneWorker):
        async def address(self, want: Want = ANYTHING) -> Address:
            return Address("http://worker", uds=str(socket))

        async def lost(self, address: Address, want: Want = ANYTHING) -> None:
            raise AssertionError("nothing is lost here")

    async with worker.running(uds=socket):
        engine = EngineClient(Local())
        assert len((await engine.encode("toy", numbered(2))).items) == 2
        await engine.aclose()


async def test_a_cancelled_call_hangs_up(client, worker):
    worker.always = worker.hold(asyncio.Event())
    async with anyio.create_task_group() as group:
        group.start_soon(client.encode, "toy", numbered(300))
        await until(lambda: len(worker.seen) == 3)
        group.cancel_scope.cancel()
    await until(lambda: worker.num_hung_up == 3)
    worker.always = None
    assert (await client.models()).models
