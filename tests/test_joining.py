"""Requests that come together run as one, and each has the answer that it would have alone."""

import asyncio

import pytest

from sie_mcp import joining, wire
from sie_mcp.errors import InvalidInput, QueueFull, WorkerUnavailable
from sie_mcp.joining import asked_alike, may_join
from tests.joiners import encode, play, until


def test_what_comes_in_one_turn_runs_as_one_and_each_has_its_own_answer():
    async def scenario(engine, joiner):
        engine.gate.set()
        waiters = [joiner.ask("k", encode(*texts)) for texts in (["a"], ["bb", "ccc"], ["dddd"])]
        answers = await asyncio.gather(*waiters)
        assert [[one.num_tokens for one in answer.items] for answer in answers] == [
            [1],
            [2, 3],
            [4],
        ]
        assert [answer.usage.input_tokens for answer in answers] == [1, 5, 4]
        assert {(answer.model, answer.revision) for answer in answers} == {("m", "r1")}
        assert engine.calls == [("k", ["a", "bb", "ccc", "dddd"], 3)]

    play(scenario)


def test_one_alone_runs_as_it_came():
    async def scenario(engine, joiner):
        engine.gate.set()
        request = encode("a", output_dtype="int8")
        answer = await joiner.ask("k", request)
        assert answer.items[0].num_tokens == 1
        assert engine.calls == [("k", ["a"], 1)]

    play(scenario)


def test_what_is_not_asked_alike_runs_apart():
    async def scenario(engine, joiner):
        engine.gate.set()
        await asyncio.gather(joiner.ask("k", encode("a")), joiner.ask("l", encode("b")))
        assert sorted(engine.calls) == [("k", ["a"], 1), ("l", ["b"], 1)]

    play(scenario)


def test_what_comes_while_enough_is_under_way_joins_and_goes_next():
    async def scenario(engine, joiner):
        first = joiner.ask("k", encode("a"))
        await until(lambda: engine.calls)
        later = []
        for text in ("b", "c"):
            later.append(joiner.ask("k", encode(text)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(engine.calls) == 1
        engine.gate.set()
        await asyncio.gather(first, *later)
        assert [texts for _, texts, _ in engine.calls] == [["a"], ["b", "c"]]

    play(scenario, max_running=1)


def test_a_group_has_a_limit_of_items_and_of_characters(monkeypatch):
    monkeypatch.setattr(joining, "MAX_JOINED_ITEMS", 3)
    monkeypatch.setattr(joining, "MAX_JOINED_CHARS", 10)

    async def scenario(engine, joiner):
        engine.gate.set()
        texts = ["a", "b", "c", "d", "eeeeeeeee", "f"]
        await asyncio.gather(*(joiner.ask("k", encode(text)) for text in texts))
        runs = [texts for _, texts, _ in engine.calls]
        assert runs == [["a", "b", "c"], ["d", "eeeeeeeee"], ["f"]]

    play(scenario, max_running=9)


def test_what_is_wrong_with_one_is_told_to_that_one_by_its_own_place():
    async def scenario(engine, joiner):
        engine.gate.set()
        good, bad = joiner.ask("k", encode("a")), joiner.ask("k", encode("b", ""))
        assert (await good).items[0].num_tokens == 1
        with pytest.raises(InvalidInput, match=r"items\[1\]"):
            await bad

    play(scenario)


def test_what_stands_against_all_is_told_to_all_and_not_tried_again():
    async def scenario(engine, joiner):
        engine.error = WorkerUnavailable("leaving", retry_after_s=2)
        engine.gate.set()
        waiters = [joiner.ask("k", encode(text)) for text in "abc"]
        found = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(one) for one in found] == [WorkerUnavailable] * 3
        assert len(engine.calls) == 1
        engine.error = None
        assert (await joiner.ask("k", encode("a"))).items[0].num_tokens == 1

    play(scenario)


def test_what_waits_long_is_sent_whatever_is_under_way(monkeypatch):
    """So its deadline, and the limits of the queue, are the engine's to keep."""
    monkeypatch.setattr(joining, "MAX_WAIT_S", 0.01)

    async def scenario(engine, joiner):
        first = joiner.ask("k", encode("a"))
        await until(lambda: engine.calls)
        later = [joiner.ask("k", encode(text)) for text in "bc"]
        joiner.ask("k", encode("d")).cancel()
        await until(lambda: len(engine.calls) == 2)
        gone = joiner.ask("k", encode("e"))
        gone.cancel()
        await asyncio.sleep(0.02)
        engine.gate.set()
        await asyncio.gather(first, *later)
        assert [texts for _, texts, _ in engine.calls] == [["a"], ["b", "c"]]
        assert (await joiner.ask("k", encode("f"))).items[0].num_tokens == 1

    play(scenario, max_running=1)


def test_what_nobody_foresaw_reaches_all_that_wait():
    async def scenario(engine, joiner):
        engine.error = ValueError("a bug")
        engine.gate.set()
        waiters = [joiner.ask("k", encode(text)) for text in "ab"]
        found = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(one) for one in found] == [ValueError] * 2

    play(scenario)


def test_one_given_up_before_the_others_are_sent_takes_none_with_it():
    async def scenario(engine, joiner):
        one, other = joiner.ask("k", encode("a")), joiner.ask("k", encode("b"))
        one.cancel()
        engine.gate.set()
        assert (await other).items[0].num_tokens == 1
        assert engine.calls == [("k", ["b"], 1)]

    play(scenario)


def test_work_ends_when_nobody_of_a_group_waits_for_it_and_not_before():
    async def scenario(engine, joiner):
        one, other = joiner.ask("k", encode("a")), joiner.ask("k", encode("b"))
        await until(lambda: engine.calls)
        one.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert engine.cancelled == 0
        other.cancel()
        await until(lambda: engine.cancelled)

    play(scenario)


def test_what_was_given_up_before_it_was_sent_is_not_sent():
    async def scenario(engine, joiner):
        joiner.ask("k", encode("a")).cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        engine.gate.set()
        await joiner.ask("k", encode("b"))
        assert [texts for _, texts, _ in engine.calls] == [["b"]]

    play(scenario, max_running=1)


def test_more_than_may_wait_is_refused_and_room_comes_again(monkeypatch):
    monkeypatch.setattr(joining, "MAX_WAITING", 2)

    async def scenario(engine, joiner):
        waiters = [joiner.ask("k", encode("a")), joiner.ask("l", encode("b"))]
        with pytest.raises(QueueFull, match="call again") as refusal:
            joiner.ask("k", encode("c"))
        assert refusal.value.retry_after_s == joining.RETRY_AFTER_S
        engine.gate.set()
        await asyncio.gather(*waiters)
        await joiner.ask("k", encode("c"))

    play(scenario)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (encode("a"), True),
        (encode(*"abcd"), True),
        (encode(*"abcde"), False),
        (encode("a" * 2_001), False),
        (wire.EncodeRequest(items=[wire.Item(input_ids=[1, 2])]), False),
        (wire.EncodeRequest(items=[wire.Item(image={"data": b"x"})]), False),
        (wire.ScoreRequest(query=wire.Item(text="a"), items=[wire.Item(text="b")]), False),
    ],
)
def test_only_a_few_short_texts_to_encode_may_join(request_, expected):
    assert may_join(request_) is expected


def test_params_tell_requests_apart():
    plain, again = encode("a"), encode("b")
    assert asked_alike(plain) == asked_alike(again)
    kinds = [encode("a", output_dtype="int8"), encode("a", options={"is_query": True})]
    assert len({asked_alike(one) for one in [plain, *kinds]}) == 3
