"""Starts are timed to their first answer, and one that fails is no figure."""

import os

import pytest

from evals.bench import first_embedding


def test_a_program_is_timed_until_its_line_comes() -> None:
    busy = "import time\nwhile time.process_time() < 0.1: pass\nprint(time.process_time())"
    wall_s, processor_s = first_embedding._printed(["-c", busy])
    assert 0.1 <= processor_s < first_embedding.LIMIT_S
    assert wall_s >= 0.05


def test_a_start_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no model here"):
        first_embedding._printed(["-c", "raise SystemExit('no model here')"])


def test_a_process_s_own_time_is_found_whatever_it_is_called() -> None:
    assert 0 < first_embedding._processor_s(os.getpid()) <= sum(os.times()[:2]) + 0.02
