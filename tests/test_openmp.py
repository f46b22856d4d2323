"""How OpenMP's threads wait in a worker."""

import os

import pytest

from sie_mcp.openmp import wait_without_spinning

VARIABLE = "OMP_WAIT_POLICY"


def test_threads_sleep_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "active")
    wait_without_spinning()
    assert os.environ[VARIABLE] == "active"
    monkeypatch.delenv(VARIABLE)
    wait_without_spinning()
    assert os.environ[VARIABLE] == "passive"
