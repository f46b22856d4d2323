"""The stores of small values: the same promises in this process and on a server."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from sie_mcp.config import load_config
from sie_mcp.errors import SettingError, StoreUnavailable
from sie_mcp.tools.kept_results import KeptResults
from sie_mcp.tools.stores import LocalStore, Store, open_store
from tests.redis_servers import KINDS, redis_server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", *KINDS])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "local":
        yield open_store(None)
        return
    with redis_server(request.param, tmp_path) as uri:
        opened = open_store(uri)
        yield opened
        await opened.aclose()


async def gone(store: Store, key: str) -> None:
    with anyio.fail_after(30):
        while await store.get(key) is not None:
            await anyio.sleep(0.005)


async def test_a_value_is_there_until_its_time_is_over(store: Store) -> None:
    assert await store.get("a") is None
    await store.put("a", b"\x00\xff", 60)
    await store.put("b", b"", 0.05)
    assert await store.get("a") == b"\x00\xff"
    await gone(store, "b")
    assert await store.get("a") == b"\x00\xff"


async def test_a_value_that_is_put_again_stays_for_the_later_time(store: Store) -> None:
    await store.put("a", b"1", 0.05)
    await store.put("a", b"2", 60)
    await store.put("b", b"", 0.06)
    await gone(store, "b")
    assert await store.get("a") == b"2"
    await store.put("a", b"3", 0.01)
    await gone(store, "a")


async def test_a_key_is_deleted_whether_it_is_there_or_not(store: Store) -> None:
    await store.put("a", b"1", 60)
    await store.delete("a")
    await store.delete("a")
    assert await store.get("a") is None


async def test_a_local_store_forgets_what_has_expired() -> None:
    now_s = 0.0
    local = LocalStore(lambda: now_s)
    for number in range(100):
        await local.put(f"{number}", b"x", 1.0)
    now_s = 1.0
    await local.put("last", b"x", 1.0)
    assert len(local._values) == 1
    assert len(local._ends) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_is_read_by_every_replica_and_by_its_owner_only(
    kind: str, tmp_path: Path
) -> None:
    with redis_server(kind, tmp_path) as uri:
        stores = [open_store(uri), open_store(uri)]
        one, two = (KeptResults(store, ttl_s=60, max_results=2, max_bytes=100) for store in stores)
        name = await one.put(['{"a":1}', "2"], "alice")
        assert name is not None
        assert await two.get(name, "alice") == ('{"a":1}', "2")
        assert await two.get(name, "bob") is None
        assert await two.get(name) is None
        # Each replica drops its own oldest, and nothing of the other's.
        mine = [await two.put([str(number)], "alice") for number in range(3)]
        assert await one.get(mine[0] or "", "alice") is None
        assert await one.get(mine[2] or "", "alice") == ("2",)
        assert await one.get(name, "alice") == ('{"a":1}', "2")
        for store in stores:
            await store.aclose()


async def test_a_server_that_is_not_there_is_an_error_that_says_no_address(tmp_path: Path) -> None:
    store = open_store(f"unix://{tmp_path}/none.sock")
    for asked in (store.get("a"), store.put("a", b"", 1), store.delete("a")):
        with pytest.raises(StoreUnavailable, match="does not answer") as caught:
            await asked
        assert str(tmp_path) not in str(caught.value)
    # An answer is worth more than that it can be read in pages.
    results = KeptResults(store, ttl_s=60, max_results=2, max_bytes=100)
    assert await results.put(["1"]) is None
    await store.aclose()


def test_an_address_that_no_client_reads_stops_the_start() -> None:
    with pytest.raises(SettingError, match="RESULTS_URI"):
        open_store("redis://host:port")


@pytest.mark.parametrize(
    "uri",
    [
        "http://:s3cret@host/0",
        "redis://:s3/cret@host/0",
        "redis://user:s3#cret@host",
        "redis://:s3cret@host:port/0",
        "redis://:s3cret@[host/0",
        "redis://:s3cret@host?socket_timeout=s3cret",
    ],
)
@pytest.mark.parametrize("variable", ["SIE_MCP_RESULTS_URI", "SIE_MCP_RESULT_URI"])
def test_no_error_text_holds_a_part_of_the_password(
    monkeypatch: pytest.MonkeyPatch, uri: str, variable: str
) -> None:
    monkeypatch.setenv(variable, uri)
    with pytest.raises(SettingError, match="RESULTS_URI") as raised:
        open_store(load_config().results_uri)
    assert "s3" not in str(raised.value) and "cret" not in str(raised.value)


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sie_mcp.tools.redis_store", None)
    with pytest.raises(SettingError, match=r"sie-mcp\[redis\]"):
        open_store("redis://host")
