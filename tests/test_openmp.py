"""How OpenMP's threads wait in a worker."""

import os

import pytest

from sie_mcp.openmp import SPIN_COUNT, wait_shortly

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@pytest.mark.parametrize(
    ("before", "spins", "after"),
    [
        ((None, None), True, (None, SPIN_COUNT)),
        ((None, None), False, ("passive", None)),
        (("active", None), True, ("active", None)),
        (("active", None), False, ("active", None)),
        ((None, "5"), False, (None, "5")),
        ((None, "5"), True, (None, "5")),
    ],
)
def test_threads_sleep_soon_unless_the_environment_says_how(monkeypatch, before, spins, after):
    for name, value in zip(VARIABLES, before, strict=True):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    wait_shortly(spins=spins)
    assert tuple(os.environ.get(name) for name in VARIABLES) == after
