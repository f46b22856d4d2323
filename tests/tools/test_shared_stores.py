"""Stores that several processes share, in a folder without a common lock and in an object store."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest

from sie_mcp.errors import ModelLoading, SettingError
from tests.tools.conftest import Toolbox
from tests.tools.searched_files import encoded, fill

pytest.importorskip("lancedb")
lance = pytest.importorskip("sie_mcp.tools.index.lance")
store = pytest.importorskip("sie_mcp.tools.index.store")
VectorStore = pytest.importorskip("sie_mcp.tools.index.vector_store").VectorStore
pytestmark = pytest.mark.anyio
PROBE = np.eye(4, dtype=np.float32)[0]
LIMIT_S = 100.0
CONFLICT = RuntimeError("Retryable commit conflict: preempted by concurrent transaction Update")


def vectors(*digests: str) -> dict[str, tuple[np.ndarray, bool]]:
    return {digest: (np.eye(4, dtype=np.float32)[1], digest == "long") for digest in digests}


def test_vectors_are_there_for_who_opens_the_store_next(tmp_path: Path) -> None:
    VectorStore(str(tmp_path), PROBE).put(vectors("a", "long"))
    found = VectorStore(str(tmp_path), PROBE).get(["a", "long", "it's"])
    assert {digest: is_cut for digest, (_, is_cut) in found.items()} == {"a": False, "long": True}
    assert (found["a"][0] == np.eye(4)[1]).all()


def test_vectors_of_other_weights_are_dropped_those_of_rounding_are_not(tmp_path: Path) -> None:
    VectorStore(str(tmp_path), PROBE).put(vectors("a"))
    rounded = PROBE + np.float32(1e-7)
    assert VectorStore(str(tmp_path), rounded).get(["a"])
    assert not VectorStore(str(tmp_path), np.eye(4, dtype=np.float32)[2]).get(["a"])


def test_two_writers_lose_nothing_and_the_older_half_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(100, 200))
    monkeypatch.setattr("sie_mcp.tools.index.vector_store.time.time", lambda: next(times))
    first, second = (VectorStore(str(tmp_path), PROBE) for _ in range(2))
    for number in range(12):
        (first if number % 2 else second).put(vectors(f"v{number}"))
    names = [f"v{number}" for number in range(12)]
    assert first.get(names).keys() == set(names)
    monkeypatch.setattr("sie_mcp.tools.index.vector_store.MAX_VECTORS", 10)
    monkeypatch.setattr("sie_mcp.tools.index.vector_store.MAX_PIECES", 3)
    first.tidy()
    assert second.get(names).keys() == set(names[6:])


def test_a_writer_that_was_too_slow_tries_again_on_the_newest_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lance, "MAX_WAIT_S", 0)

    class Table:
        looked = 0

        def checkout_latest(self) -> None:
            self.looked += 1

    table, num_writes = Table(), 0

    def write() -> str:
        nonlocal num_writes
        num_writes += 1
        if num_writes < 4:
            raise CONFLICT
        return "done"

    assert lance.commit(table, write) == "done"
    assert (table.looked, num_writes) == (3, 4)

    def never() -> None:
        raise CONFLICT

    with pytest.raises(ModelLoading, match="another machine"), lance.storing("s3://b/c"):
        lance.commit(table, never)
    with pytest.raises(SettingError, match="s3://b/c cannot be used"), lance.storing("s3://b/c"):
        raise RuntimeError("denied")


def test_a_table_that_somebody_else_began_is_joined_and_other_errors_are_not_hidden() -> None:
    class Database:
        def __init__(self, error: str) -> None:
            self.error = error

        def create_table(self, *_: object, **__: object) -> None:
            raise ValueError(self.error)

        def open_table(self, name: str) -> str:
            return name

    assert lance.begin(Database("Table 'a' already exists"), "a", None) == "a"
    with pytest.raises(ValueError, match="disk"):
        lance.begin(Database("no disk"), "a", None)


def test_a_table_whose_first_version_is_not_there_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "MAX_WAIT_S", 0)

    class Database:
        looked = 0

        def create_table(self, *_: object, **__: object) -> None:
            raise ValueError("Table 'a' already exists")

        def open_table(self, name: str) -> str:
            self.looked += 1
            if self.looked < 3:
                raise ValueError(f"Table '{name}' was not found")
            return name

    assert lance.begin(Database(), "a", None) == "a"
    for name in ("chunks", "files"):
        (tmp_path / f"{name}.lance").mkdir()
    begun = store.Store(str(tmp_path))
    assert not begun.is_made
    begun.make(PROBE)
    assert store.Store(str(tmp_path)).is_made


CHILD = """
import asyncio, sys
from sie_mcp.config import Config
from sie_mcp.tools import text_vectors
from sie_mcp.tools.collection import Source, read_collection
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.index import update
from tests.tools.fake_worker import FakeWorker

async def ignore(*_):
    pass

async def main(uri, folder, cache):
    update.PART_CHUNKS = text_vectors.PART_TEXTS = 4
    context = ToolContext(FakeWorker(), Config(allow=(folder,), cache_dir=cache, index_dir=uri))
    for source in (Source([], ".", [], "file"), Source([], "rows.txt", [], "row")):
        found = await read_collection(context, source, "auto", ignore)
        print(len(found.texts), len(set(found.texts)))

asyncio.run(main(*sys.argv[1:]))
"""


async def run_two(uri: str, toolbox: Toolbox, environment: dict[str, str]) -> list[bytes]:
    """Let two processes with nothing in common but the store index the same folder at once."""
    fill(toolbox, {f"{n}.txt": f"text number n{n} of all" for n in range(24)})
    fill(toolbox, {"rows.txt": "\n".join(f"row number r{n}" for n in range(24))})
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CHILD,
            uri,
            str(toolbox.folder),
            str(toolbox.cache / str(number)),
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment,
            stdout=asyncio.subprocess.PIPE,
        )
        for number in range(2)
    ]
    try:
        async with asyncio.timeout(LIMIT_S):
            return [(await child.communicate())[0] for child in children]
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def test_two_machines_may_write_to_one_store_at_once(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "bucket").mkdir()
    uri = f"file://{tmp_path}/bucket"
    assert await run_two(uri, toolbox, {}) == [b"25 25\n24 24\n"] * 2
    toolbox.settings = {"index_dir": uri}
    answer = await toolbox.call("deduplicate", path=".", unit="passage")
    assert (answer["count"], answer["num_exact"]) == (25, 0)
    assert encoded(toolbox) == []


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """A stand-in for S3 on a free port, with a bucket `indexes`."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        httpx2.put(f"{settings['AWS_ENDPOINT_URL']}/indexes").raise_for_status()
        yield settings
    finally:
        server.stop()


async def test_two_machines_may_write_to_one_bucket_at_once(
    toolbox: Toolbox, bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await run_two("s3://indexes/sie", toolbox, bucket) == [b"25 25\n24 24\n"] * 2
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    toolbox.settings = {"index_dir": "s3://indexes/sie"}
    answer = await toolbox.call("find_similar", text="text number n7", limit=1)
    assert answer["results"][0]["path"] == "7.txt"
    assert encoded(toolbox) == ["text number n7"]
    assert not (toolbox.cache / "indexes").exists()
