"""Requests that come together run as one, and each has the answer that it would have alone."""

import asyncio
from dataclasses import dataclass, field

import pytest

from sie_mcp import joining, wire
from sie_mcp.errors import InvalidInput, QueueFull, WorkerUnavailable
from sie_mcp.joining import Joiner, asked_alike, may_join


def encode(*texts: str, **params) -> wire.EncodeRequest:
    return wire.EncodeRequest(
        items=[wire.Item(text=text) for text in texts],
        **({"params": wire.EncodeParams(**params)} if params else {}),
    )


@dataclass
class Engine:
    """Answers with as many tokens as a text has letters; what it is told to refuse, it refuses."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[object, list[str], int]] = field(default_factory=list)
    cancelled: int = 0
    error: Exception | None = None
    room: int = 1_000

    async def run(self, key, request, share):
        texts = [one.text for one in request.items]
        self.calls.append((key, texts, share.number))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        if len(texts) > self.room:
            raise QueueFull("full", retry_after_s=1)
        for place, text in enumerate(texts):
            if text == "":
                raise InvalidInput(f"items[{place}].text is empty")
        items = [wire.EncodedItem(id=one.id, num_tokens=len(one.text)) for one in request.items]
        return wire.EncodeResponse(model="m", items=items, revision="r1")


def play(scenario, max_running: int = 2):
    async def whole():
        engine = Engine()
        joiner = Joiner(engine.run, max_running=max_running)
        async with asyncio.timeout(10):
            await scenario(engine, joiner)

    asyncio.run(whole())


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


@dataclass
class Gates:
    """Open to who comes first, and then shut until it is opened."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    is_first: bool = True

    async def wait(self):
        if self.is_first:
            self.is_first = False
            return
        await self.open.wait()


async def until(condition) -> None:
    """Let others run until it holds; the scenario's time bounds it."""
    while not condition():
        await asyncio.sleep(0)
