"""Requests that ran as one and were refused so: each is then told what is its own."""

import asyncio

import pytest

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, QueueFull
from tests.joiners import Gates, encode, play, until


def test_where_not_all_have_room_those_run_that_have():
    async def scenario(engine, joiner):
        engine.room = 1
        engine.gate.set()
        answers = await asyncio.gather(*(joiner.ask("k", encode(text)) for text in ("a", "bb")))
        assert [one.items[0].num_tokens for one in answers] == [1, 2]

    play(scenario)


def test_where_nobody_has_room_nobody_is_tried_but_one():
    async def scenario(engine, joiner):
        engine.room = 0
        engine.gate.set()
        waiters = [joiner.ask("k", encode(text)) for text in "abcd"]
        found = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(one) for one in found] == [QueueFull] * 4
        # The second is one of them, and stands for all.
        assert [(len(texts), num) for _, texts, num in engine.calls] == [(4, 4), (1, 4)]

    play(scenario)


def test_what_is_wrong_with_the_one_that_is_tried_is_told_to_that_one():
    async def scenario(engine, joiner):
        engine.room = 1
        engine.gate.set()
        waiters = [joiner.ask("k", encode(text)) for text in ("a", "bb", "")]
        found = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(one) for one in found] == [wire.EncodeResponse] * 2 + [InvalidInput]

    play(scenario)


def test_where_there_is_no_room_who_waits_no_more_is_not_tried():
    async def scenario(engine, joiner):
        engine.room = 0
        waiters = [joiner.ask("k", encode(text)) for text in "abc"]
        await until(lambda: engine.calls)
        waiters[2].cancel()
        engine.gate.set()
        await asyncio.gather(*waiters, return_exceptions=True)
        assert [texts for _, texts, _ in engine.calls] == [["a", "b", "c"], ["b"]]

    play(scenario)


def test_one_that_runs_apart_ends_when_it_is_given_up_and_takes_none_with_it():
    async def scenario(engine, joiner):
        one, other, bad = (joiner.ask("k", encode(text)) for text in ("a", "bb", ""))
        engine.gate = Gates()
        await until(lambda: len(engine.calls) == 4)
        one.cancel()
        await until(lambda: engine.cancelled)
        engine.gate.open.set()
        assert (await other).items[0].num_tokens == 2
        with pytest.raises(InvalidInput):
            await bad
        assert engine.cancelled == 1

    play(scenario)


def test_work_ends_when_all_are_answered_or_gone():
    async def scenario(engine, joiner):
        one, other, bad = (joiner.ask("k", encode(text)) for text in ("a", "bb", ""))
        engine.gate = Gates()
        await until(lambda: len(engine.calls) == 4)
        for waiter in (one, other, bad):
            waiter.cancel()
        await until(lambda: engine.cancelled == 3)
        engine.gate.open.set()
        assert (await joiner.ask("k", encode("c"))).items[0].num_tokens == 1

    play(scenario)
