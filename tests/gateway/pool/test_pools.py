"""Several pools as one endpoint: choice, overflow, holding, aliases."""

import anyio
import pytest

from sie_mcp.connection import Address, Want
from sie_mcp.errors import InvalidInput, WorkerUnavailable
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.pool.watch import Known
from tests.gateway.pool.test_pool import Workers

pytestmark = pytest.mark.anyio

PLAN = Plan(
    default="main",
    pools={
        "main": PoolPlan(workers=["http://m1", "http://m2"], slots=1),
        "spot": PoolPlan(workers=["http://s1"], slots=1),
    },
    models={"hot": ["spot", "main"]},
)


def make(*ready: str, hold_s: float = 5.0) -> Pools:
    pools = Pools(PLAN, Workers(), hold_s=hold_s)
    for name in ready:
        pool = pools.pools["spot" if "s" in name else "main"]
        pool.watch.known[f"http://{name}"] = Known(Address(f"http://{name}"), is_ready=True)
    return pools


@pytest.mark.parametrize(
    ("want", "url"),
    [
        (Want("hot"), "http://s1"),
        (Want("hot", pool="main"), "http://m1"),
        (Want("cold"), "http://m1"),
        (Want("cold", pool="spot"), "http://s1"),
    ],
)
async def test_the_callers_pool_comes_before_the_models_and_that_before_the_default(want, url):
    assert (await make("m1", "s1").address(want)).base_url == url


async def test_an_unknown_pool_is_the_callers_mistake():
    with pytest.raises(InvalidInput, match="no pool 'h100'; there are: main, spot"):
        await make("m1").address(Want("hot", pool="h100"))


async def test_a_pool_without_room_sends_to_the_next_of_the_models():
    pools = make("m1")
    assert (await pools.address(Want("hot"))).base_url == "http://m1"
    pools = make("m1", "s1")
    pools.pools["spot"].watch.known["http://s1"].resident = frozenset({Key("hot")})
    first = [await pools.address(Want("hot")) for _ in range(2)]
    assert {one.base_url for one in first} == {"http://s1"}
    async with anyio.create_task_group() as group:
        group.start_soon(pools.address, Want("hot"))
        await anyio.wait_all_tasks_blocked()
        # One waits there now: the next goes over.
        assert (await pools.address(Want("hot"))).base_url == "http://m1"
        pools.done(first[0], Want("hot"))


async def test_a_sleeping_pool_holds_until_a_worker_comes():
    pools = make()
    given: list[Address] = []

    async def ask() -> None:
        given.append(await pools.address(Want("cold")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert pools.pools["main"].num_wanted == 1
        pool = pools.pools["main"]
        pool.watch.known["http://m2"] = Known(Address("http://m2"), is_ready=True)
        pool.look_again()
    assert given == [Address("http://m2")]


async def test_holding_has_an_end_and_says_so():
    with pytest.raises(WorkerUnavailable, match=r"no worker of pool main .* \(hold_s\)") as late:
        await make(hold_s=0.01).address(Want("cold"))
    assert late.value.retry_after_s


async def test_an_alias_becomes_the_models_name_for_those_that_wait_too():
    pools = make("m1")
    pool = pools.pools["main"]
    first = await pools.address(Want("auto"))
    given: list[Address] = []

    async def ask() -> None:
        given.append(await pools.address(Want("auto")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        pool.watch.known["http://m1"].resident = frozenset({Key("org/real")})
        pools.learn(Want("auto"), "org/real")
        await anyio.wait_all_tasks_blocked()
        assert given == [first]
        # What was counted under the old name is counted down under it.
        for _ in range(2):
            pools.done(first, Want("auto"))
    assert pool.num_waiting == 0
    assert pool.demand.total() == 0
