"""Placement over several simulated devices, under seeds; and its rules one by one."""

import random
from dataclasses import replace

import pytest

from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.placement import IDLE_PART, REPLICATE_WAIT_S, LaneState, place

SEEDS = range(300)
STEPS = 120
TOKENS_PER_S = 100.0
LOAD_S = 0.2
EMPTY = LaneState(
    holds=False, is_ready=False, wait_s=0.0, tokens=0, evicted_bytes=0, free_bytes=100
)
READY = replace(EMPTY, holds=True, is_ready=True)
COMING = replace(EMPTY, holds=True)


class Device:
    """A ledger, the work that waits, and loads that take a while."""

    def __init__(self) -> None:
        self.ledger = Ledger(100, 10)
        self.tokens = 0
        self.ready_at_s: dict[str, float] = {}

    def state(self, name: str, size: int, now_s: float) -> LaneState:
        return LaneState(
            holds=self.ledger.get(name) is not None,
            is_ready=self.ledger.get(name) is not None and self.ready_at_s[name] <= now_s,
            wait_s=self.tokens / TOKENS_PER_S,
            tokens=self.tokens,
            evicted_bytes=self.ledger.evicted_bytes(size),
            free_bytes=self.ledger.free_bytes,
            num_loading=sum(at > now_s for at in self.ready_at_s.values()),
            load_s=LOAD_S,
        )

    def load(self, name: str, size: int, now_s: float) -> bool:
        """Load as an engine whose models are all idle would."""
        room = self.ledger.find_room(size, now_s + 100.0)
        for victim in room.victims:
            self.ledger.remove(victim, is_victim=True)
            del self.ready_at_s[victim]
        if room.wait_s is not None:
            return False
        self.ledger.admit(name, size, now_s)
        self.ledger.settle(name, size, load_s=LOAD_S, now_s=now_s)
        self.ready_at_s[name] = now_s + LOAD_S
        return True


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_goes_where_its_model_is_and_copies_are_few(seed):
    rng = random.Random(seed)
    devices = [Device() for _ in range(rng.randint(1, 4))]
    sizes = {name: rng.randint(10, 45) for name in "abcdefgh"}
    now_s = 0.0
    copies = 0
    for _ in range(STEPS):
        elapsed_s = rng.expovariate(4.0)
        now_s += elapsed_s
        for device in devices:
            device.tokens = max(0, device.tokens - int(elapsed_s * TOKENS_PER_S))
        name = rng.choices([*sizes], weights=[8, 4, 2, 1, 1, 1, 1, 1])[0]
        states = [device.state(name, sizes[name], now_s) for device in devices]
        placing = place(states)
        chosen = states[placing.lane]
        ready = [state for state in states if state.is_ready]
        if ready:
            assert chosen.is_ready, seed
            assert chosen.tokens == min(state.tokens for state in ready), seed
        elif any(state.holds for state in states):
            assert chosen.holds, seed
        else:
            fits = [one.evicted_bytes for one in states if one.evicted_bytes is not None]
            assert chosen.evicted_bytes == min(fits, default=None), seed
        if placing.replicate_to is not None:
            copy = states[placing.replicate_to]
            assert not copy.holds and copy.evicted_bytes is not None, seed
            assert chosen.wait_s >= REPLICATE_WAIT_S, seed
            assert copy.wait_s <= IDLE_PART * chosen.wait_s, seed
            copies += devices[placing.replicate_to].load(name, sizes[name], now_s)
        device = devices[placing.lane]
        if device.ledger.get(name) is None:
            assert device.load(name, sizes[name], now_s), seed
        device.ledger.use(name, now_s)
        device.ledger.release(name, now_s)
        device.tokens += rng.randint(1, 60)
        for one in devices:
            assert one.ledger.free_bytes >= 0, seed
    if len(devices) == 1:
        assert copies == 0, seed
    # A copy needs a queue of half a second, and the next needs another.
    assert copies < STEPS / 4, seed


def test_a_new_model_goes_where_the_fewest_bytes_are_evicted_then_where_most_is_free():
    full = replace(EMPTY, evicted_bytes=30, free_bytes=0)
    assert place([full, replace(EMPTY, tokens=9)]).lane == 1
    assert place([replace(EMPTY, free_bytes=50), EMPTY]).lane == 1
    assert place([replace(EMPTY, evicted_bytes=None), full]).lane == 1


def test_two_new_models_at_once_go_to_different_devices():
    assert place([replace(EMPTY, num_loading=1), EMPTY]).lane == 1


def test_requests_share_the_copies_of_a_model_by_what_waits():
    assert place([replace(READY, tokens=5), replace(READY, tokens=4)]).lane == 1
    assert place([COMING, replace(READY, tokens=400)]).lane == 1
    assert place([EMPTY, COMING]).lane == 1


@pytest.mark.parametrize(
    ("busy", "other", "replicate_to"),
    [
        (replace(READY, wait_s=1.0), EMPTY, 1),
        # Not long enough, for anybody or for what the load takes.
        (replace(READY, wait_s=0.4), EMPTY, None),
        (replace(READY, wait_s=1.0, load_s=0.6), EMPTY, None),
        # Nearly as busy itself, in use throughout, or on its way already.
        (replace(READY, wait_s=1.0), replace(EMPTY, wait_s=0.3), None),
        (replace(READY, wait_s=1.0), replace(EMPTY, evicted_bytes=None), None),
        (replace(READY, wait_s=1.0), COMING, None),
    ],
)
def test_a_copy_is_made_only_where_it_helps(busy, other, replicate_to):
    assert place([busy, other]).replicate_to == replicate_to
