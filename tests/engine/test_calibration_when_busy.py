"""Batch sizes measured on a machine that others use too: not believed, and measured again later."""

import pytest

from sie_mcp.catalogue import batch_sizes
from sie_mcp.engine.held_up import held_up_s
from sie_mcp.engine.passes import FIRST_PAUSE_S, MAX_PASSES
from sie_mcp.engine.server import Activity
from tests.engine.conftest import play
from tests.engine.test_calibration import RISING, Clock, used_once

# The knee is the smallest that is tried.
LEVEL = {0: 2e5}


def test_what_a_busy_machine_says_is_not_kept_and_is_measured_again(tmp_path):
    # Large batches are held up throughout, so that they look slow; later nobody disturbs.
    clock = Clock(RISING, noise=lambda tokens: 4.0 if tokens > 600 else 1.0)

    async def scenario():
        async with used_once(tmp_path, clock) as (one, sizes, adapter):
            assert not await one.measure(Activity())
            assert sizes.tokens == {}
            assert batch_sizes.read(tmp_path) == []
            num_runs = len(adapter.batches)
            assert not await one.measure(Activity())  # Not at once: it would see the same.
            assert len(adapter.batches) == num_runs
            clock.noise = lambda tokens: 1.0
            clock.now_s += FIRST_PAUSE_S
            assert await one.measure(Activity())
            assert [kept.tokens for kept in batch_sizes.read(tmp_path)] == [4_000]

    play(scenario)


def test_a_small_batch_is_kept_that_two_measurements_agree_on(tmp_path):
    clock = Clock(LEVEL)

    async def scenario():
        async with used_once(tmp_path, clock) as (one, sizes, _):
            assert not await one.measure(Activity())
            assert sizes.tokens == {}
            clock.now_s += FIRST_PAUSE_S
            assert await one.measure(Activity())
            assert sizes.tokens == {"a": 250}
            assert [kept.tokens for kept in batch_sizes.read(tmp_path)] == [250]

    play(scenario)


def test_measurements_that_never_agree_leave_the_default_and_have_an_end(tmp_path, caplog):
    caplog.set_level("INFO")
    clock = Clock(LEVEL)

    async def scenario():
        async with used_once(tmp_path, clock) as (one, sizes, adapter):
            for times in range(MAX_PASSES):
                # By turns the smallest batch is enough, and one two steps above.
                clock.rates = {0: 1e5, 900: 2e5} if times % 2 else LEVEL
                assert not await one.measure(Activity())
                clock.now_s += 10_000.0
            assert "no two measurements agree model=a" in caplog.text
            num_runs = len(adapter.batches)
            assert not await one.measure(Activity())
            assert len(adapter.batches) == num_runs
            assert sizes.tokens == {}
            assert batch_sizes.read(tmp_path) == []

    play(scenario)


@pytest.mark.parametrize("held_up_per_s", [0.0, 0.1, 0.5, None])
def test_speeds_do_not_count_while_others_have_the_processors(tmp_path, held_up_per_s):
    clock = Clock(RISING)

    def forward(tokens):
        clock.held_up_s = None if held_up_per_s is None else held_up_per_s * clock.now_s
        return 1.0

    async def scenario():
        async with used_once(tmp_path, clock) as (one, _, _):
            clock.noise = forward
            assert await one.measure(Activity()) == (held_up_per_s != 0.5)

    play(scenario)


def test_the_kernel_says_how_long_threads_waited(tmp_path):
    for number, content in enumerate(("900 2000000000 3", "1 500000000 1", "", "x y z")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "schedstat").write_text(content)
    assert held_up_s(tmp_path) == 2.5
    assert held_up_s(tmp_path / "not there") is None
