"""A live gateway with real models, a slice of a real collection, and a worker that looks at sides.

A library that is not installed is skipped: `make e2e` has them all.
"""

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import anyio
import anyio.from_thread
import numpy as np
import pytest

from sie_mcp.client import Client, blocking
from sie_mcp.config import Config
from tests.conftest import Pulled
from tests.e2e.conftest import environment, serving
from tests.integrations import figures
from tests.integrations.collection import MINILM, POTION, SPLADE, Collection, read_slice
from tests.running import dense, load
from tests.scripted_worker import ScriptedWorker

SERVE = ["-m", "sie_mcp", "serve"]


@pytest.fixture(scope="session")
def live(pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway, which starts a worker of its own."""
    for model in (MINILM, POTION, SPLADE):
        pulled(model)
    folder = tmp_path_factory.mktemp("i")
    env = environment(folder, cache_dir=str(Config().cache_dir))
    with serving([sys.executable, *SERVE], env, folder / "gateway.log") as (url, _):
        yield url


@pytest.fixture(scope="session")
def client(live: str) -> Iterator[Client]:
    with Client(live) as made:
        yield made


@pytest.fixture(scope="session")
def collection(pulled: Pulled) -> Collection:
    """The slice, with vectors that were computed in this process."""
    adapter = load(pulled(POTION))

    @cache
    def embed(text: str) -> np.ndarray:
        return dense(adapter, [text])[0]

    return read_slice(embed)


class Sides:
    """A worker that only notes on which side texts were sent."""

    def __init__(self, worker: ScriptedWorker, url: str) -> None:
        self._worker = worker
        self.url = url

    def taken(self) -> list[bool | None]:
        """Return `is_query` of the requests since the last time, and forget them."""
        found = [one.body["params"]["options"].get("is_query") for one in self._worker.seen]
        self._worker.seen.clear()
        return found


@pytest.fixture
def sides() -> Iterator[Sides]:
    worker = ScriptedWorker()
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(worker.running()) as url,
    ):
        yield Sides(worker, url)


@pytest.fixture(scope="session", autouse=True)
def all_closed() -> Iterator[None]:
    """Clients that an adapter holds end with it; wait for what they still have to close."""
    yield
    gc.collect()
    if blocking._PORTALS:
        blocking._portal().call(anyio.wait_all_tasks_blocked)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep what was found, where a file is named and nothing failed."""
    path = os.environ.get("E2E_RESULTS")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path and exitstatus == 0 and reporter is not None:
        figures.write(Path(path), len(reporter.stats.get("passed", [])))
