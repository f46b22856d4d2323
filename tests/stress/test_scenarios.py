"""Each scenario of `python -m evals.stress`, small: what must hold at any speed, real processes."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.stress import chaos, overload, soak, swap, twelve
from evals.stress.options import Options
from evals.stress.report import Report


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="stress") as name:
        yield Path(name)


def broken(report: Report) -> list[str]:
    """Return the claims that do not hold, but those that a slow machine may break."""
    return [f"{one.claim}: {one.found}" for one in report.claims if not (one.holds or one.is_speed)]


def test_models_that_come_and_go_leave_nothing_behind(work):
    options = Options(work, tiny=True, requests=10)
    assert not broken(asyncio.run(swap.run(options)))


def test_no_request_fails_with_memory_for_four_of_twelve_models(work):
    options = Options(work, tiny=True, seconds=1.5, clients=8)
    assert not broken(asyncio.run(twelve.run(options)))


def test_what_cannot_be_served_is_refused_and_told_when_to_come_back(work):
    options = Options(work, tiny=True, seconds=2, clients=4)
    assert not broken(asyncio.run(overload.run(options)))


def test_what_a_worker_takes_does_not_grow_with_the_requests_it_has_served(work):
    """Case T32, in small: callers of three kinds, texts of 1 to 510 words."""
    options = Options(work, tiny=True, requests=400)
    assert not broken(asyncio.run(soak.run(options)))


def test_nothing_is_lost_or_wrong_when_the_worker_is_killed_under_load(work):
    options = Options(work, tiny=True, requests=1, clients=4)
    assert not broken(asyncio.run(chaos.run(options)))
