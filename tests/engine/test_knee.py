"""Which batch is large enough, on curves that are written down."""

import random

import pytest

from sie_mcp.engine.knee import NUM_ROUNDS, Point, Sweep, knee, sizes
from sie_mcp.engine.passes import FIRST_PAUSE_S, Passes

SIZES = (1, 2, 4, 8, 16)


def sweep(rates, **limits):
    """Run one on a device of these speeds by size; return it and the sizes that it tried."""
    limits = {"limit_s": 1_000.0, "batch_limit_s": 100.0} | limits
    found, tried = Sweep(tuple(rates), **limits), []
    while (size := found.next_size()) is not None:
        slowness = 1 if size in tried else 3  # The first run of a size makes kernels.
        tried.append(size)
        found.note(size, slowness * size / rates[size])
    return found, tried


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((10, 20, 40, 80, 160), 16),  # Rises to the end.
        ((10, 20, 95, 100, 99), 4),  # Flat from where it has 95 %.
        ((10, 20, 94, 100, 99), 8),
        ((100, 99, 98, 97, 96), 1),
        ((50, 100, 60, 99, 98), 2),  # One slow size in between does not count.
    ],
)
def test_the_knee_is_the_smallest_size_with_nearly_the_best_speed(rates, expected):
    points = [Point(size, size, size / rate) for size, rate in zip(SIZES, rates, strict=True)]
    assert knee(points) == expected
    assert sweep(dict(zip(SIZES, rates, strict=True)))[0].result() == expected


def test_speeds_are_of_the_tokens_that_ran_and_of_the_fastest_run():
    assert knee([Point(8, 4, 1.0), Point(16, 16, 1.0)]) == 16
    found = Sweep((8,), limit_s=9, batch_limit_s=9)
    for seconds in (3.0, 1.5, 2.0):
        assert found.next_size() == 8
        found.note(6, seconds)
    assert found.points == [Point(8, 6, 1.5)]
    assert found.points[0].rate == 4.0


def test_sizes_double_from_a_part_of_the_default_up_to_the_most():
    assert sizes(16_384, 65_536) == (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
    assert sizes(4_096, 4_096) == (256, 512, 1024, 2048, 4096)
    assert sizes(4_096, 4_095)[-1] == 2048
    assert sizes(5, 5) == (1, 2, 4)


def test_it_stops_where_larger_batches_are_slower():
    found, tried = sweep({1: 50, 2: 100, 4: 90, 8: 80, 16: 70})
    assert tried == NUM_ROUNDS * [1, 2, 4, 8]
    assert found.result() == 2


def test_sizes_take_turns_so_that_what_disturbs_for_a_while_costs_each_one_run():
    rates = dict(zip(SIZES, (10, 20, 40, 80, 160), strict=True))
    found, runs = Sweep(SIZES, limit_s=1_000.0, batch_limit_s=100.0), []
    while (size := found.next_size()) is not None:
        runs.append(size)
        is_disturbed = 3 <= len(runs) <= 14
        found.note(size, (9 if is_disturbed else 1) * size / rates[size])
    # Two sizes looked slower than one before them, so that larger ones had to wait.
    assert runs[:8] == [1, 2, 4, 8, 1, 2, 4, 8]
    assert runs[-5:] == [1, 2, 4, 8, 16]
    assert found.result() == 16


def test_what_still_rises_when_time_runs_out_says_nothing():
    found, tried = sweep(dict.fromkeys(SIZES, 10.0) | {1: 5.0, 2: 7.0}, batch_limit_s=0.6)
    # The next would take twice the 0.4 s of the last. First runs are three times slower, and what
    # they say of larger sizes is not the last word.
    assert tried == [1, 1, 2, 1, 2, 4, *3 * [1, 2, 4]]
    assert found.result() is None
    found, tried = sweep(dict.fromkeys(SIZES, 10.0), batch_limit_s=0.6)
    assert tried == [1, 2, 1, 2, 4, *4 * [1, 2, 4]]
    assert found.result() == 1


def test_all_batches_together_have_a_limit():
    found, tried = sweep(dict.fromkeys(SIZES, 1.0), limit_s=7.0)
    assert tried == [1, 1, 2]  # Three seconds, one and six.
    assert found.result() is None
    assert Sweep(SIZES, limit_s=0.0, batch_limit_s=1.0).next_size() is None
    assert Sweep(SIZES, limit_s=0.0, batch_limit_s=1.0).result() is None


def test_too_few_runs_say_nothing():
    found = Sweep((8, 16), limit_s=2.5, batch_limit_s=9)
    while found.next_size() is not None:
        found.note(8, 0.6)
    assert found.result() is None


class Machine:
    """Takes turns between quiet and busy, for spans that a seed draws; its clock is its own.

    Args:
        seed: Of the spans, and of one part in a hundred that each run is off.
        busy_s: Mean of a span in which others have most of it.
        quiet_s: Mean of one in which nobody else wants it.
        slowness: How many times longer work takes then.
    """

    def __init__(self, seed: int, busy_s: float, quiet_s: float, slowness: float) -> None:
        self.now_s = 0.0
        self._random = random.Random(seed)
        self._means_s, self._slowness = (quiet_s, busy_s), slowness
        self._is_busy = False
        self._until_s = self._random.expovariate(1 / quiet_s)

    def run(self, work_s: float) -> float:
        """Return how long so much work takes."""
        since_s = self.now_s
        while True:
            slowness = self._slowness if self._is_busy else 1.0
            if self.now_s + work_s * slowness <= self._until_s:
                self.now_s += work_s * slowness
                return (self.now_s - since_s) * (1 + abs(self._random.gauss(0.0, 0.01)))
            work_s -= (self._until_s - self.now_s) / slowness
            self.now_s, self._is_busy = self._until_s, not self._is_busy
            self._until_s += self._random.expovariate(1 / self._means_s[self._is_busy])


# Tokens a second by size: of a small encoder on two processors, and one that is level sooner.
RISING = {256: 15e3, 512: 19e3, 1024: 22e3, 2048: 25e3, 4096: 27e3}
LEVEL = {256: 15e3, 512: 22e3, 1024: 26.5e3, 2048: 27e3, 4096: 27e3}


@pytest.mark.parametrize(("rates", "quiet"), [(RISING, 4096), (LEVEL, 1024)])
@pytest.mark.parametrize("noise", [(0.05, 0.2, 3.0), (0.5, 1.0, 3.0), (1.0, 0.5, 2.0)])
@pytest.mark.parametrize("seed", range(12))
def test_on_a_busy_machine_what_is_believed_is_within_a_step_of_what_is_true(
    rates, quiet, noise, seed
):
    machine, passes = Machine(seed, *noise), Passes(4096)
    believed, num_passes = None, 0
    while believed is None and not passes.is_over("m"):
        if not passes.is_due("m", machine.now_s):
            machine.run(1.0)
            continue
        num_passes += 1
        one = Sweep(tuple(rates), limit_s=5.0, batch_limit_s=0.5)
        since_s = machine.now_s
        while (size := one.next_size()) is not None:
            one.note(size, machine.run(size / rates[size]))
        assert machine.now_s - since_s < 6.0
        believed = passes.note("m", one.result(), machine.now_s)
    assert believed in (quiet // 2, quiet, quiet * 2), f"{believed} after {num_passes}, seed {seed}"


def test_a_knee_below_the_default_is_believed_when_the_next_one_says_nearly_the_same():
    passes = Passes(4096)
    assert passes.is_due("m", 0.0)
    assert passes.note("m", 512, 0.0) is None
    assert not passes.is_due("m", FIRST_PAUSE_S - 1)
    assert passes.is_due("other", 0.0)
    assert passes.is_due("m", FIRST_PAUSE_S)
    assert passes.note("m", 2048, 100.0) is None  # Two steps: neither is believed.
    assert not passes.is_due("m", 100.0 + 2 * FIRST_PAUSE_S - 1)
    assert passes.note("m", 1024, 200.0) == 2048
    assert passes.is_due("m", 200.0)


def test_the_default_and_more_is_believed_at_once():
    assert Passes(4096).note("m", 4096, 0.0) == 4096
    assert Passes(4096).note("m", 8192, 0.0) == 8192


def test_what_was_disturbed_confirms_nothing_and_has_an_end():
    passes = Passes(4096)
    for tokens in (512, None, 512, None, 512):
        assert passes.note("m", tokens, 0.0) is None
        assert not passes.is_over("m")
    assert passes.note("m", None, 0.0) is None
    assert passes.is_over("m")
    assert not passes.is_over("other")
