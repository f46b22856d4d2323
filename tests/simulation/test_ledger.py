"""The ledger alone under seeds; and whom it lets go when."""

import random
from typing import get_args

import pytest

from sie_mcp.engine.eviction import EvictionName, make_policy
from sie_mcp.engine.memory import Ledger
from sie_mcp.errors import ModelTooLarge, OutOfMemory

SEEDS = range(100)
STEPS = 200


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", get_args(EvictionName))
def test_the_budget_holds_and_nothing_in_use_is_evicted(seed, policy):
    rng = random.Random(seed)
    ledger = Ledger(budget_bytes=100, reserved_bytes=10, policy=make_policy(policy))
    sizes = {name: rng.randint(5, 60) for name in "abcdefgh"}
    sizes["huge"] = 91
    now = 0.0
    users: dict[str, int] = {}
    for _ in range(STEPS):
        now += rng.random()
        name = rng.choice([*sizes])
        if rng.random() < 0.5 and users.get(name):
            ledger.release(name, now)
            users[name] -= 1
        elif ledger.get(name) is not None and not ledger.get(name).is_closing:
            ledger.use(name, now)
            users[name] = users.get(name, 0) + 1
        elif ledger.get(name) is None:
            load(ledger, name, sizes[name], now, users, seed)
        assert ledger.resident_bytes + ledger.reserved_bytes <= ledger.budget_bytes, seed
        for one, count in users.items():
            resident = ledger.get(one)
            assert not count or resident is not None, f"seed {seed}: {one} left while in use"


def load(ledger, name, size, now, users, seed):
    if size > 90:
        before = [one.name for one in ledger.residents()]
        with pytest.raises(ModelTooLarge):
            ledger.find_room(size, now)
        assert [one.name for one in ledger.residents()] == before, seed
        return
    free = ledger.free_bytes
    room = ledger.find_room(size, now)
    if room.wait_s is not None:
        assert room.wait_s > 0, seed
        return
    freed = [ledger.get(victim).size_bytes for victim in room.victims]
    assert all(users.get(victim, 0) == 0 for victim in room.victims), seed
    assert free + sum(freed) >= size, seed
    # Never more than needed: without any one of them it would not have been enough.
    assert all(free + sum(freed) - one < size for one in freed), seed
    for victim in room.victims:
        ledger.remove(victim, is_victim=True)
    ledger.admit(name, size, now)
    ledger.settle(name, size, load_s=0.5, now_s=now)
    ledger.reopen()
    users[name] = 0


def test_a_model_in_use_past_its_tenure_closes_when_others_wait():
    ledger = Ledger(100)
    ledger.admit("a", 80, 0.0)
    ledger.settle("a", 80, load_s=1.0, now_s=0.0)
    ledger.use("a", 0.0)
    assert ledger.find_room(50, 1.0).wait_s == pytest.approx(3.0)
    assert not ledger.get("a").is_closing
    assert ledger.find_room(50, 5.0).wait_s is not None
    assert ledger.get("a").is_closing
    ledger.release("a", 5.0)
    assert ledger.find_room(50, 5.0).victims == ("a",)
    ledger.reopen()
    assert not ledger.get("a").is_closing


def test_an_idle_model_leaves_after_a_short_while_and_a_pinned_one_never():
    ledger = Ledger(100)
    for name in ("pinned", "idle"):
        ledger.admit(name, 45, 0.0)
        ledger.settle(name, 45, load_s=1.0, now_s=0.0)
    ledger.pin("pinned", is_pinned=True)
    assert ledger.find_room(45, 0.1).wait_s == pytest.approx(0.15)
    assert ledger.find_room(45, 0.3).victims == ("idle",)
    with pytest.raises(OutOfMemory, match="pinned models leave 55; unpin one of: pinned"):
        ledger.find_room(90, 100.0)
    assert ledger.first_idle() == "idle"


def test_a_model_with_work_in_the_queue_is_asked_to_leave_last():
    ledger = Ledger(100, has_work=lambda name: name == "busy")
    for name in ("busy", "quiet"):
        ledger.admit(name, 45, 0.0)
        ledger.settle(name, 45, load_s=1.0, now_s=0.0)
        ledger.use(name, 1.0 if name == "busy" else 2.0)
    assert ledger.find_room(45, 10.0).wait_s is not None
    assert ledger.get("quiet").is_closing
    assert not ledger.get("busy").is_closing


def test_greedy_dual_keeps_what_costs_most_to_load_a_byte_until_it_is_long_unused():
    ledger = Ledger(100, policy=make_policy("greedy_dual"))
    bring_up(ledger, "dear", 50, load_s=5.0, now_s=0.0)
    bring_up(ledger, "cheap", 50, load_s=1.0, now_s=1.0)
    evicted = []
    for turn in range(8):
        now_s = 100.0 + turn
        (victim,) = ledger.find_room(50, now_s).victims
        ledger.remove(victim, is_victim=True)
        bring_up(ledger, f"cheap {turn}", 50, load_s=1.0, now_s=now_s)
        evicted.append(victim)
    # Each victim lets the clock rise by what a cheap one is worth: five of them reach the dear one.
    assert evicted[0] == "cheap"
    assert 3 <= evicted.index("dear") <= 5


def bring_up(ledger, name, size, load_s, now_s):
    ledger.admit(name, size, now_s)
    ledger.settle(name, size, load_s=load_s, now_s=now_s)
