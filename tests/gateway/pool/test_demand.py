"""How many copies demand asks for: up at once, down late, and never for what waits."""

import pytest

from sie_mcp.gateway.pool.demand import MAX_KEYS, MEMORY_S, SHRINK_AFTER_S, Demand
from sie_mcp.gateway.pool.keys import Key

HOT = Key("hot")


def steady(demand: Demand, count: int, *, until_s: float, key: Key = HOT) -> None:
    """Have so many requests run from the beginning."""
    for _ in range(count):
        demand.begin(key, 0.0)
    demand.copies(key, 8, 8, until_s)


def test_one_copy_until_it_is_seven_tenths_full():
    demand = Demand()
    steady(demand, 5, until_s=60.0)
    assert demand.copies(HOT, 8, 8, 60.0) == 1
    demand.begin(HOT, 60.0)
    assert demand.copies(HOT, 8, 8, 60.0) == 1
    assert demand.copies(HOT, 8, 8, 120.0) == 2


@pytest.mark.parametrize(("gateways", "copies"), [(1, 2), (3, 6), (9, 8)])
def test_each_gateway_sees_its_share_only(gateways, copies):
    demand = Demand(gateways)
    steady(demand, 11, until_s=60.0)
    assert demand.copies(HOT, 8, 8, 60.0) == copies


def test_a_burst_shorter_than_the_memory_asks_for_nothing():
    demand = Demand()
    for _ in range(16):
        demand.begin(HOT, 0.0)
    assert demand.copies(HOT, 8, 8, MEMORY_S / 20) == 1
    for _ in range(16):
        demand.end(HOT, MEMORY_S / 20)
    assert demand.copies(HOT, 8, 8, 10.0) == 1


def test_copies_go_only_when_fewer_were_enough_for_long():
    demand = Demand()
    steady(demand, 20, until_s=60.0)
    assert demand.copies(HOT, 8, 8, 60.0) == 4
    for _ in range(20):
        demand.end(HOT, 60.0)
    # Looked at often, as each request does.
    for step in range(int(SHRINK_AFTER_S)):
        assert demand.copies(HOT, 8, 8, 61.0 + step) == 4
    assert demand.copies(HOT, 8, 8, 63.0 + SHRINK_AFTER_S + 5) == 1


def test_demand_that_comes_back_keeps_its_copies():
    demand = Demand()
    steady(demand, 20, until_s=60.0)
    for _ in range(20):
        demand.end(HOT, 60.0)
    demand.copies(HOT, 8, 8, 80.0)
    for _ in range(20):
        demand.begin(HOT, 80.0)
    assert demand.copies(HOT, 8, 8, 110.0) == 4
    for _ in range(20):
        demand.end(HOT, 110.0)
    # The long time begins again.
    assert demand.copies(HOT, 8, 8, 140.0) == 4


def test_a_pool_that_shrinks_has_no_more_copies_than_workers():
    demand = Demand()
    steady(demand, 20, until_s=60.0)
    assert demand.copies(HOT, 8, 2, 60.0) == 2


def test_names_are_forgotten_but_never_one_that_runs():
    demand = Demand()
    demand.begin(HOT, 0.0)
    for number in range(MAX_KEYS + 100):
        demand.begin(Key(f"m{number}"), 1.0)
        demand.end(Key(f"m{number}"), 1.0)
    assert len(demand.keys()) <= MAX_KEYS
    assert HOT in set(demand.keys())
    assert demand.total() == 1
    demand.end(HOT, 2.0)
    assert demand.total() == 0
