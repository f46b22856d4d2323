"""What holds in every world, after every step. `SIMULATION_SEEDS=20000 pytest` looks at more."""

import os
from collections import Counter

import pytest

from tests.simulation.world import World

NUM_SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
PROPERTIES = (
    "a batch is of one model",
    "a batch keeps to its budget, also a learned one",
    "a cancelled sequence frees its place at once",
    "a long sequence joins only a batch that a long one began",
    "a model in use is never evicted",
    "a model with work in the queue is never evicted",
    "a model with work is resident and in use",
    "every request is answered exactly once",
    "every sequence runs once, and results come in order",
    "nothing holds a model at the end",
    "nothing runs that was cancelled, expired or has run",
    "only a full queue refuses, says when to come back and keeps nothing",
    "only what has expired is dropped, and then before it runs",
    "the device never idles while something waits",
    "the memory budget is never exceeded",
    "the queue's account is what waits",
    "what is too old starts within four batches for each that is older, and itself",
)


@pytest.fixture(scope="module")
def seen() -> tuple[dict[str, str], Counter[str]]:
    """For each broken property the first seed that breaks it; and what happened in all worlds."""
    broken: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for seed in range(NUM_SEEDS):
        world = World(seed).play()
        counts += world.counts
        for name, what in world.watch.broken.items():
            broken.setdefault(name, f"seed {seed}, {what[0]}")
    return broken, counts


@pytest.mark.parametrize("name", PROPERTIES)
def test_in_every_world(seen, name):
    broken, _ = seen
    assert name not in broken, broken[name]


def test_every_property_that_is_looked_at_is_listed(seen):
    broken, _ = seen
    assert not broken.keys() - set(PROPERTIES)


@pytest.mark.parametrize(
    "what",
    ["ok", "cancelled", "deadline", "expired", "QUEUE_FULL", "RATE_LIMIT", "load failed",
     "too large", "loads", "evictions", "out of memory"],
)  # fmt: skip
def test_worlds_hold_everything_that_may_happen(seen, what):
    """Not one of the properties above holds because its case never comes up."""
    _, counts = seen
    assert counts[what] >= NUM_SEEDS / 50
