"""The shared local worker: started once, joined, restarted, and its failures told."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest

from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.errors import SettingError, WorkerUnavailable
from sie_mcp.gateway import restarts, supervisor
from sie_mcp.gateway.supervisor import LocalWorker
from sie_mcp.gateway.worker_settings import worker_name
from tests.gateway.local_workers import Rig
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio

START_AND_WAIT = """
import asyncio, sys
from sie_mcp.config import Config
from sie_mcp.gateway.supervisor import LocalWorker
asyncio.run(LocalWorker(Config(runtime_dir=sys.argv[1]), sys.argv[2:]).address())
"""


@pytest.fixture
async def rig(tmp_path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    yield made
    await made.end()


async def test_the_first_call_starts_the_worker_and_later_ones_join_it(rig):
    first = rig.local()
    address = await first.address()
    assert Path(address.uds).is_socket()
    assert await first.address() == address
    assert await rig.local().address() == address
    assert len(rig.starts) == 1


async def test_a_local_worker_that_preloads_is_there_already(rig):
    local = rig.local("--preloading")
    assert Path((await local.address()).uds).is_socket()
    assert len(rig.starts) == 1


async def test_gateways_that_race_start_exactly_one_worker(rig):
    locals_ = [rig.local("--start-s", 0.2) for _ in range(4)]
    async with anyio.create_task_group() as group:
        for one in locals_ * 5:
            group.start_soon(one.address)
    assert len(rig.starts) == 1


async def test_a_killed_worker_is_replaced_and_collected(rig):
    local = rig.local()
    address = await local.address()
    killed = rig.starts[0]["pid"]
    os.kill(killed, signal.SIGKILL)
    await rig.until_gone(killed)
    assert await local.address() == address
    assert len(rig.starts) == 2


async def test_a_worker_that_accepts_and_never_answers_is_ended_and_replaced(rig, monkeypatch):
    monkeypatch.setattr(supervisor, "PROBE_TIMEOUT_S", 0.05)
    local = rig.local()
    await local.address()
    stopped = rig.starts[0]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    await local.lost(Address(""))
    async with anyio.create_task_group() as group:
        group.start_soon(local.address)
        await long_silence(local)
    await rig.until_gone(stopped)
    assert len(rig.starts) == 2


async def test_a_worker_that_hangs_under_a_call_is_ended_though_nobody_calls_again(
    rig, monkeypatch
):
    monkeypatch.setattr(supervisor, "PROBE_TIMEOUT_S", 0.05)
    local = rig.local()
    address = await local.address()
    async with httpx2.AsyncClient(
        transport=httpx2.AsyncHTTPTransport(uds=address.uds), timeout=30
    ) as http:
        stopped = rig.starts[0]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        async with anyio.create_task_group() as group:
            group.start_soon(long_silence, local)
            with pytest.raises(httpx2.TransportError):
                await http.get("http://worker/slow")
    await rig.until_gone(stopped)


async def long_silence(local: LocalWorker) -> None:
    """Once a worker is silent, let it have been so for longer than any worker may be.

    By its own limit alone, a short one, one that is only slow might be ended too.
    """
    await until(lambda: local._silent_since_s is not None)
    local._silent_since_s -= supervisor.STUCK_AFTER_S


async def test_a_worker_that_is_silent_for_a_moment_lives(rig, monkeypatch):
    monkeypatch.setattr(supervisor, "PROBE_TIMEOUT_S", 0.05)
    local = rig.local()
    await local.address()
    os.kill(rig.starts[0]["pid"], signal.SIGSTOP)
    await until(lambda: local._silent_since_s is not None)
    os.kill(rig.starts[0]["pid"], signal.SIGCONT)
    await until(lambda: local._silent_since_s is None)
    await local.lost(Address(""))
    await local.address()
    assert len(rig.starts) == 1


async def test_a_worker_that_dies_every_time_is_started_ever_less_often(rig, monkeypatch):
    monkeypatch.setattr(restarts, "FIRST_PAUSE_S", 1_000.0)
    monkeypatch.setattr(restarts, "MAX_PAUSE_S", 1_000.0)
    local = rig.local("--die", 3, worker_start_timeout_s=60.0)
    for _ in range(restarts.FREE_STARTS):
        with pytest.raises(WorkerUnavailable, match="ended at its start with code 3"):
            await local.address()
    hurried = rig.local("--die", 3, worker_start_timeout_s=0.1)
    hurried._restarts = local._restarts
    with pytest.raises(WorkerUnavailable, match="started 2 times in a row") as raised:
        await hurried.address()
    assert 900 < raised.value.retry_after_s <= 1_000
    assert len(rig.starts) == 2


async def test_a_caller_who_leaves_does_not_stop_the_start(rig):
    local = rig.local("--start-s", 0.3)
    for _ in range(3):
        with anyio.move_on_after(0.05):
            await local.address()
    await local.address()
    assert len(rig.starts) == 1


async def test_a_gateway_killed_in_mid_start_leaves_its_worker_to_others(rig):
    command = rig.command("--start-s", 1)
    run_dir = str(rig.folder / "run")
    gateway = subprocess.Popen([sys.executable, "-c", START_AND_WAIT, run_dir, *command])
    await until(lambda: len(rig.starts) == 1)
    gateway.kill()
    gateway.wait(30)
    await LocalWorker(Config(runtime_dir=run_dir), command).address()
    assert len(rig.starts) == 1


async def test_a_worker_that_is_leaving_is_waited_out(rig):
    local = rig.local("--leave-s", 0.4)
    await local.address()
    leaving = rig.starts[0]["pid"]
    os.kill(leaving, signal.SIGTERM)
    async with local._prober() as probe:
        with anyio.fail_after(30):
            # Until it has heard the signal it answers as ever.
            while await local._answers(probe):
                await anyio.sleep(0.005)
    await local.lost(Address(""))
    await local.address()
    assert not psutil.pid_exists(leaving)
    new = rig.starts[1]["pid"]
    assert psutil.pid_exists(new)
    # The socket is the new one's.
    assert await rig.local().address() == await local.address()
    assert len(rig.starts) == 2


async def test_a_socket_left_by_a_killed_worker_is_no_obstacle(rig):
    local = rig.local()
    socket = Path((await local.address()).uds)
    await rig.end()
    assert socket.exists()
    await rig.local().address()
    assert len(rig.starts) == 2


async def test_a_worker_that_dies_at_its_start_is_told_with_the_end_of_its_log(rig):
    local = rig.local("--die", 3)
    log = rig.folder / "run" / f"{worker_name(rig.config())}.log"
    log.write_text("an old story\n")
    with pytest.raises(WorkerUnavailable, match="ended at its start with code 3") as raised:
        await local.address()
    assert "sie-mcp: a clear reason" in str(raised.value)
    assert "an old story" not in str(raised.value)
    assert "an old story" in log.read_text()
    with pytest.raises(WorkerUnavailable):
        await local.address()
    assert len(rig.starts) == 2


async def test_a_worker_that_refuses_its_settings_is_no_matter_of_retrying(rig):
    with pytest.raises(SettingError, match=r"the local worker cannot start: a clear reason$"):
        await rig.local("--die", 2).address()


async def test_a_worker_that_never_answers_is_told_with_its_process_and_log(rig):
    local = rig.local("--start-s", 30, worker_start_timeout_s=0.4)
    with pytest.raises(WorkerUnavailable, match=r"did not answer within 0\.4 s") as raised:
        await local.address()
    await until(lambda: bool(rig.starts))
    assert f"process {rig.starts[0]['pid']}" in str(raised.value)
    assert ".log" in str(raised.value)


async def test_a_start_that_fails_while_nobody_waits_is_told_to_the_next(rig):
    local = rig.local("--die", 3)
    with anyio.move_on_after(0.001):
        await local.address()
    await until(lambda: bool(rig.starts))
    with pytest.raises(WorkerUnavailable):
        await local.address()
    assert len(rig.starts) == 1


async def test_the_log_has_a_limit(rig, monkeypatch):
    monkeypatch.setattr(supervisor, "MAX_LOG_BYTES", 10)
    log = rig.folder / "run" / f"{worker_name(rig.config())}.log"
    local = rig.local()
    log.write_text("x" * 11)
    await local.address()
    assert log.with_suffix(".log.1").read_text() == "x" * 11
    await until(lambda: log.read_text() == "serving\n")


async def test_the_worker_is_its_own_session_with_the_gateways_settings(rig, monkeypatch):
    monkeypatch.chdir(rig.folder)
    local = rig.local(cache_dir=Path("models"), device="cpu", offline=True, load_wait_s=3)
    await local.address()
    (start,) = rig.starts
    assert start["sid"] == start["pid"]
    assert start["env"]["SIE_MCP_CACHE_DIR"] == str(rig.folder / "models")
    assert start["env"]["SIE_MCP_DEVICE"] == "cpu"
    assert start["env"]["SIE_MCP_OFFLINE"] == "True"
    assert "SIE_MCP_LOAD_WAIT_S" not in start["env"]
    # What the worker is told is something that it can read.
    for name, value in start["env"].items():
        monkeypatch.setenv(name, value)
    assert Config().cache_dir == rig.folder / "models"


async def test_the_lock_names_the_worker(rig):
    await rig.local().address()
    lock = rig.folder / "run" / f"{worker_name(rig.config())}.lock"
    assert lock.read_text() == f"{rig.starts[0]['pid']}\n"


async def test_a_worker_is_not_started_again_while_it_is_still_dying(rig):
    """A process that ends lets go of the lock first, and has ended a moment later."""
    local = rig.local("--dying-s", 0.3, "--die", 3)
    with pytest.raises(WorkerUnavailable, match="ended at its start with code 3"):
        await local.address()
    assert len(rig.starts) == 1


async def test_many_callers_hear_of_the_same_failure(rig):
    local = rig.local("--die", 3)
    results = await asyncio.gather(*[local.address() for _ in range(5)], return_exceptions=True)
    assert {type(result) for result in results} == {WorkerUnavailable}
    assert len(rig.starts) == 1
