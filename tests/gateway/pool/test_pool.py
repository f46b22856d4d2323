"""A pool as an endpoint: waiting, late binding, failures, what a scaler sees."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from sie_mcp.connection import Address, Connections
from sie_mcp.errors import QueueFull, WorkerUnavailable
from sie_mcp.gateway.pool.keys import Key, ranked
from sie_mcp.gateway.pool.members import ListedMembers
from sie_mcp.gateway.pool.pool import ASKED_S, WANTED_S, Pool, PoolLimits
from sie_mcp.gateway.pool.watch import Known

pytestmark = pytest.mark.anyio

KEY = Key("m")
NAMES = tuple(f"http://w{n}" for n in range(4))
ORDER = ranked("m", NAMES)


class Workers(Connections):
    """Workers that note what they were asked, and answer nothing else."""

    def __init__(self) -> None:
        super().__init__(timeout_s=1.0)
        self.asked: list[str] = []

    def _open(self, address: Address) -> httpx2.AsyncClient:
        def answer(request: httpx2.Request) -> httpx2.Response:
            self.asked.append(str(request.url))
            return httpx2.Response(202, json={})

        transport = httpx2.MockTransport(answer)
        return httpx2.AsyncClient(base_url=address.base_url, transport=transport)


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def make(*, slots: int = 2, max_waiting: int = 8, names=NAMES) -> tuple[Pool, Workers, Clock]:
    """Return a pool whose workers are all ready and hold nothing. Nobody looks at them."""
    clock, workers = Clock(), Workers()
    limits = PoolLimits(slots, max_waiting)
    pool = Pool("gpu", ListedMembers(names), workers, limits, clock=clock)
    for name in names:
        pool.watch.known[name] = Known(Address(name), is_ready=True)
    return pool, workers, clock


def hold(pool: Pool, name: str, *keys: Key) -> None:
    """Have a worker come to hold models."""
    pool.watch.known[name].resident = frozenset(keys)
    pool.look_again()


@asynccontextmanager
async def asking(pool: Pool, count: int, key: Key = KEY) -> AsyncIterator[list[Address]]:
    """Ask for a worker so many times side by side; what was given appears in the list."""
    given: list[Address] = []

    async def ask() -> None:
        given.append((await pool.address(key))[0])

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        yield given
        group.cancel_scope.cancel()


async def settle() -> None:
    await anyio.wait_all_tasks_blocked()


async def test_of_many_first_requests_one_goes_out_and_the_rest_follow_its_load():
    pool, _, _ = make(slots=4)
    async with asking(pool, 5) as given:
        assert given == [Address(ORDER[0])]
        pool.watch.known[ORDER[0]].loading = frozenset({KEY})
        pool.look_again()
        await settle()
        assert len(given) == 1
        hold(pool, ORDER[0], KEY)
        await settle()
        assert given == [Address(ORDER[0])] * 5
        assert pool.num_waiting == 0


async def test_a_load_that_fails_lets_the_next_one_try():
    pool, _, _ = make()
    async with asking(pool, 2) as given:
        pool.watch.known[ORDER[0]].loading = frozenset({KEY})
        pool.look_again()
        pool.watch.known[ORDER[0]].loading = frozenset()
        pool.done(given[0], KEY, is_lost=False)
        await settle()
        assert given == [Address(ORDER[0])] * 2


async def test_a_load_that_is_never_seen_does_not_hold_others_for_ever():
    pool, _, clock = make()
    async with asking(pool, 2) as given:
        clock.now_s += ASKED_S
        pool.look_again()
        await settle()
        assert len(given) == 2


async def test_who_waits_gets_the_worker_that_is_free_first_in_order():
    pool, _, _ = make(slots=1)
    hold(pool, ORDER[0], KEY)
    async with asking(pool, 4) as given:
        assert len(given) == 2
        assert pool.num_waiting == 2
        pool.done(given[0], KEY, is_lost=False)
        await settle()
        assert len(given) == 3
        # A former owner that holds it helps as soon as it is known to.
        hold(pool, ORDER[1], KEY)
        await settle()
        assert given[3] == Address(ORDER[1])


async def test_one_full_model_does_not_hold_up_another():
    pool, _, _ = make(slots=1)
    hold(pool, ORDER[0], KEY, Key("other"))
    async with asking(pool, 3), asking(pool, 1, Key("elsewhere")) as given:
        assert len(given) == 1


async def test_too_many_that_wait_are_refused_and_told_when_to_come_back():
    pool, _, _ = make(max_waiting=3, names=())
    async with asking(pool, 3) as given:
        with pytest.raises(QueueFull, match="3 requests wait for pool gpu") as refused:
            await pool.address(KEY)
        assert refused.value.retry_after_s
        assert not given


async def test_a_caller_that_leaves_frees_its_place_and_its_worker():
    pool, _, _ = make(slots=1)
    hold(pool, ORDER[0], KEY)
    async with asking(pool, 4):
        assert pool.num_waiting == 2
    assert pool.num_waiting == 0
    with anyio.move_on_after(0):
        await pool.address(Key("new"))
    async with asking(pool, 1, Key("new")) as given:
        assert len(given) == 1


async def test_a_worker_that_fails_stands_aside_and_the_request_goes_elsewhere():
    pool, _, clock = make()
    hold(pool, ORDER[0], KEY)
    address, _ = await pool.address(KEY)
    pool.done(address, KEY, is_lost=True)
    again, _ = await pool.address(KEY, frozenset({address.base_url}))
    assert again == Address(ORDER[1])
    pool.done(again, KEY, is_lost=False)
    # Others are kept from it for a second.
    assert (await pool.address(Key("m2")))[0] != address
    clock.now_s += 1.0
    hold(pool, ORDER[0], KEY)
    assert (await pool.address(KEY))[0] == address


async def test_a_request_that_every_worker_failed_may_have_any_again():
    pool, _, _ = make()
    assert (await pool.address(KEY, frozenset(NAMES)))[0] == Address(ORDER[0])


async def test_a_request_for_no_model_goes_to_whoever_has_least_to_do():
    pool, _, _ = make(names=NAMES[:2])
    nothing = Key("")
    given = [(await pool.address(nothing))[0].base_url for _ in range(4)]
    assert sorted(given) == sorted([*NAMES[:2], *NAMES[:2]])


async def test_a_hot_model_is_fetched_by_another_owner_beside_the_requests():
    pool, workers, clock = make(slots=2)
    hold(pool, ORDER[0], KEY)
    async with anyio.create_task_group() as group:
        pool._group = group  # What `run` does, without the looks.
        async with asking(pool, 4) as given:
            assert len(given) == 4
            clock.now_s += 30.0
            async with asking(pool, 1) as more:
                assert workers.asked == [f"{ORDER[1]}/v1/models/m/load"]
                # It waits for no copy, and is asked for one only once.
                pool.look_again()
                await settle()
                assert len(workers.asked) == 1
                pool.done(given[0], KEY, is_lost=False)
                await settle()
                assert more == [Address(ORDER[0])]


async def test_a_scaler_sees_what_runs_what_waits_and_for_a_while_what_was():
    pool, _, clock = make(names=())
    assert pool.num_wanted == 0
    async with asking(pool, 3):
        assert pool.num_wanted == 3
    assert pool.num_wanted == 1
    clock.now_s += WANTED_S
    assert pool.num_wanted == 0


async def test_only_those_that_were_named_get_a_request_whatever_others_have():
    pool, _, _ = make()
    hold(pool, ORDER[0], KEY)
    among = frozenset({ORDER[2], ORDER[3], "http://elsewhere"})
    with anyio.fail_after(30):
        address, _ = await pool.address(KEY, among=among)
    assert address.base_url == ORDER[2]
    assert [one.base_url for one in pool.next_best(address, KEY, among, 3)] == [ORDER[3]]
    rest = [one.base_url for one in pool.next_best(address, KEY, None, 9)]
    assert rest == [ORDER[0], ORDER[1], ORDER[3]]


@pytest.mark.parametrize("among", [frozenset(), frozenset({"http://elsewhere"})])
async def test_where_none_of_those_that_were_named_is_there_nobody_waits(among):
    pool, _, _ = make()
    with anyio.fail_after(30), pytest.raises(WorkerUnavailable, match="none of the workers"):
        await pool.address(KEY, among=among)
    assert pool.num_waiting == 0
