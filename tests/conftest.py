"""Real models for the tests that want them: those of the user's cache, never fetched here."""

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sie_mcp.catalogue.fetch import find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import Config

# Before torch is imported: on tiny models, threads that wait for each other cost most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
Pulled = Callable[[str], Path]
# Few tests, each of half a minute: the last of them would run while all other workers are idle.
LONG_FIRST = ("tests/stress/", "tests/e2e/", "tests/cluster/", "tests/integrations/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders whose files take longest; otherwise the order is kept."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_FIRST))


def pytest_collection_finish() -> None:
    """Spare the collector what imports made: a pass over all of it takes a second."""
    gc.freeze()


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the clock of what is counted a minute in the middle of one.

    Minutes are those of the clock on the wall, and at the end of each there is room again.
    """
    clock = SimpleNamespace(time=lambda: 60_000_030.0, monotonic=time.monotonic)
    for module in ("limits.aio.storage.memory", "limits.aio.strategies", "sie_mcp.access.rates"):
        monkeypatch.setattr(f"{module}.time", clock)


@pytest.fixture(scope="session")
def pulled() -> Pulled:
    """Return the folder of a catalogue model, or skip the test where it is not on disk."""

    def find(name: str) -> Path:
        entry = load_catalogue().find(name)
        assert entry is not None, f"the catalogue has no {name}"
        folder = find_local(entry, Config().cache_dir)
        if folder is None:
            pytest.skip("run `sie-mcp models pull starter` first")
        return folder

    return find
