"""Requests that a door joins: each has its own answer, is counted once, ends with its caller."""

import asyncio
import threading

import pytest

from sie_mcp import metrics
from tests.doors.both import ENCODE, body, both
from tests.engine.conftest import play, until
from tests.toys import ToyLoader, toy_vector


def counted(name: str) -> dict[str, float]:
    """Return how many requests of a name were answered, by status."""
    found = {}
    for one in metrics.REQUESTS.collect()[0].samples:
        if one.labels["primitive"] == name and one.name.endswith("_total") and one.value:
            found[one.labels["code"]] = one.value
    return found


def since(before: dict[str, float], name: str) -> dict[str, float]:
    now = counted(name)
    more = {code: now[code] - before.get(code, 0) for code in now}
    return {code: number for code, number in more.items() if number}


def timed(name: str) -> float:
    labels = {"primitive": name}
    return metrics.REGISTRY.get_sample_value("sie_request_seconds_count", labels) or 0.0


def joined(asked) -> list[str]:
    """Return the shares of what came by the door joined."""
    return [one["x-sie-share"] for path, one in asked.seen if path.startswith("/joined/")]


def test_those_that_come_together_have_each_their_own_answer_and_are_counted_each(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            before, before_timed = counted("encode"), timed("encode")
            texts = [f"text {number}" for number in range(60)]
            answers = await asyncio.gather(
                *(asked.door.post(ENCODE, json=body(text)) for text in texts)
            )
            for text, answer in zip(texts, answers, strict=True):
                assert answer.json()["items"][0]["dense"]["values"] == toy_vector(text).tolist()
            assert since(before, "encode") == {"200": 60.0}
            assert timed("encode") - before_timed == 60
            numbers = [int(one.split()[1]) for one in joined(asked)]
            assert sum(numbers) == 60 > len(numbers)

    play(scenario)


def test_one_that_is_wrong_among_others_is_refused_alone_and_counted_alone(tmp_path):
    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with both(tmp_path, loader) as asked:
            before = counted("embeddings")
            texts = ["first", "second", *["fine"] * 8, " "]
            async with asyncio.TaskGroup() as group:
                tasks = []
                for text in texts:
                    given = {"model": "a", "input": text}
                    tasks.append(group.create_task(asked.door.post("/v1/embeddings", json=given)))
                    if len(tasks) <= 2:
                        await until(lambda: len(joined(asked)) == len(tasks))
                await until(lambda: len(joined(asked)) >= 3, 30)
                loader.forward_gate.set()
            assert [one.result().status_code for one in tasks] == [200] * 10 + [400]
            assert since(before, "embeddings") == {"200": 10.0, "400": 1.0}

    play(scenario)


def test_those_in_flight_are_counted_each(tmp_path):
    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with both(tmp_path, loader) as asked:
            before = metrics.REQUESTS_IN_FLIGHT._value.get()
            waiting = [
                asyncio.create_task(asked.door.post(ENCODE, json=body(str(number))))
                for number in range(20)
            ]
            await until(lambda: metrics.REQUESTS_IN_FLIGHT._value.get() - before == 20)
            loader.forward_gate.set()
            await asyncio.gather(*waiting)
            assert metrics.REQUESTS_IN_FLIGHT._value.get() == before

    play(scenario)


@pytest.mark.parametrize("num_sequences", [1, 3])
def test_a_group_larger_than_the_queue_is_served_as_far_as_there_is_room(tmp_path, num_sequences):
    async def scenario():
        async with both(tmp_path, max_queue_sequences=num_sequences) as asked:
            before = counted("encode")
            texts = [str(number) for number in range(30)]
            answers = await asyncio.gather(
                *(asked.door.post(ENCODE, json=body(text)) for text in texts)
            )
            codes = [one.status_code for one in answers]
            assert set(codes) <= {200, 503}
            assert 200 in codes
            for text, answer in zip(texts, answers, strict=True):
                if answer.status_code == 200:
                    values = answer.json()["items"][0]["dense"]["values"]
                    assert values == toy_vector(text).tolist()
                else:
                    assert answer.headers["x-sie-error-code"] == "QUEUE_FULL"
                    assert float(answer.headers["retry-after"]) > 0
            told = {str(code): float(codes.count(code)) for code in set(codes)}
            assert since(before, "encode") == told

    play(scenario)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("X-SIE-Priority", ("bulk", "interactive")),
        ("X-SIE-Client", ("me", "é")),
        ("X-SIE-Timeout", ("5", "6")),
        ("X-SIE-Load-Wait", ("5", "6")),
        ("X-SIE-Local-Models", ("no", "yes")),
    ],
)
def test_who_asks_reaches_the_worker_and_keeps_requests_apart(tmp_path, header, values):
    async def scenario():
        async with both(tmp_path) as asked:
            given = [None, *values] * 10
            answers = await asyncio.gather(
                *(
                    asked.door.post(
                        ENCODE,
                        json=body("x"),
                        headers={} if value is None else {header: value.encode()},
                    )
                    for value in given
                )
            )
            assert {one.status_code for one in answers} == {200}
            named = {one.get(header.lower()) for _, one in asked.seen}
            written = {value.encode().decode("latin-1") for value in values}
            assert named == {None, *written}
            assert len(asked.seen) < len(given)

    play(scenario)


def test_a_share_from_outside_means_nothing(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            before = counted("encode")
            headers = {"X-SIE-Share": "encode 99 last"}
            for given in (body("x"), body(*"abcdefgh")):
                answer = await asked.door.post(ENCODE, json=given, headers=headers)
                assert answer.status_code == 200
            answer = await asked.door.post("/joined/a", json=body("x"), headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
            assert since(before, "encode") == {"200": 2.0}

    play(scenario)


def test_deadlines_are_kept_while_a_model_is_loaded_for_long(tmp_path):
    async def scenario():
        loader = ToyLoader()
        loader.gate.clear()
        async with both(tmp_path, loader) as asked:
            before = counted("encode")
            headers = {"X-SIE-Timeout": "0.5"}
            answers = await asyncio.gather(
                *(asked.door.post(ENCODE, json=body("x"), headers=headers) for _ in range(200))
            )
            assert {one.status_code for one in answers} == {504}
            assert {one.headers["x-sie-error-code"] for one in answers} == {"DEADLINE_EXCEEDED"}
            assert since(before, "encode") == {"504": 200.0}
            loader.gate.set()

    play(scenario)
