"""The store of results that did not fit: how long, how many, how large, and under which names."""

import json

import pytest

from sie_mcp.tools.kept_results import KeptResults, page
from sie_mcp.tools.stores import LocalStore

pytestmark = pytest.mark.anyio


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def store(*, max_results: int = 3, max_bytes: int = 100, clock: Clock | None = None) -> KeptResults:
    clock = clock or Clock()
    return KeptResults(
        LocalStore(clock), ttl_s=10, max_results=max_results, max_bytes=max_bytes, clock=clock
    )


async def test_a_result_goes_after_its_time() -> None:
    clock = Clock()
    results = store(clock=clock)
    name = await results.put(["1", "2"])
    assert name is not None
    clock.now_s = 9.9
    assert await results.get(name) == ("1", "2")
    clock.now_s = 10.0
    assert await results.get(name) is None


async def test_a_result_that_comes_again_stays_for_the_whole_time_under_its_name() -> None:
    clock = Clock()
    results = store(clock=clock)
    name = await results.put(["1"])
    other = await results.put(["2"])
    clock.now_s = 5.0
    assert await results.put(["1"]) == name
    clock.now_s = 12.0
    assert await results.get(name or "") == ("1",)
    assert await results.get(other or "") is None


async def test_the_oldest_goes_when_there_are_too_many() -> None:
    results = store(max_results=2)
    first, *others = [await results.put([text]) for text in ("1", "2", "3")]
    assert await results.get(first or "") is None
    assert all([await results.get(name or "") for name in others])


async def test_the_oldest_go_when_all_are_too_large() -> None:
    results = store(max_bytes=10)
    first = await results.put(["x" * 6])
    second = await results.put(["ä" * 2])
    third = await results.put(["y" * 6])
    assert await results.get(first or "") is None
    assert await results.get(second or "") and await results.get(third or "")


async def test_what_is_larger_than_all_that_is_kept_is_not_and_drops_nothing() -> None:
    results = store(max_bytes=10)
    name = await results.put(["1"])
    assert await results.put(["x" * 11]) is None
    assert await results.get(name or "") == ("1",)
    assert await store(max_results=0).put(["1"]) is None


async def test_names_differ_by_entries_and_cannot_be_computed_elsewhere() -> None:
    results = store(max_results=9)
    names = {await results.put(entries) for entries in (["12"], ["1", "2"], [], [""])}
    assert len(names) == 4
    assert await store().put(["12"]) not in names


def test_a_page_of_an_entry_of_quotes_stays_within_its_size() -> None:
    entry = json.dumps({"text": '"\\' * 5_000})
    text = page("n", ["{}", entry, "{}"], 1, 200)
    assert len(text) <= 800
    found = json.loads(text)
    assert found["next"] == "sie://results/n?offset=2"
    assert found["entries"][0].startswith('{"text"')


async def test_what_has_expired_takes_no_room() -> None:
    clock = Clock()
    results = store(max_results=2, max_bytes=10, clock=clock)
    assert await results.put(["x" * 9])
    clock.now_s = 10.0
    names = [await results.put([text]) for text in ("y" * 4, "z" * 4)]
    assert [await results.get(name or "") for name in names] == [("y" * 4,), ("z" * 4,)]


async def test_equal_results_of_two_owners_have_two_names() -> None:
    results = store()
    mine, other = await results.put(["1"], "alice"), await results.put(["1"], "bob")
    assert mine != other and mine == await results.put(["1"], "alice")
    assert await results.get(mine or "", "bob") is None
