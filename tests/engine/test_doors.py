"""A worker's doors: how many, kept alive, ended with it. Those here are small stand-ins."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sie_mcp.config import Config
from sie_mcp.engine import doors, serving
from sie_mcp.engine.cgroup import Cgroup
from sie_mcp.engine.doors import Doors, NoDoors, num_doors
from sie_mcp.errors import SettingError
from tests.engine.conftest import play, until

# Writes its order into a file, and lives until it is ended.
WAITS = """
import os, sys, signal
order = sys.stdin.buffer.readline()
with open(sys.argv[1], "ab") as file:
    file.write(str(os.getpid()).encode() + b" " + order)
sys.stdin.read()
"""
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + WAITS


def cgroup(folder: Path, quota: int | None) -> Cgroup:
    """Return a group with so many processors' time."""
    if quota is not None:
        (folder / "cpu.max").write_text(f"{quota * 100_000} 100000")
    membership = folder / "cgroup"
    membership.write_text("0::/\n")
    return Cgroup(folder, membership)


@pytest.mark.parametrize(
    ("cpus", "quota", "number"),
    [(1, None, 0), (4, None, 0), (7, None, 0), (8, None, 2), (12, None, 3), (16, None, 4),
     (128, None, 4), (128, 2, 0), (128, 8, 2), (8, 128, 2)],
)  # fmt: skip
def test_a_machine_has_doors_by_its_processors(tmp_path, monkeypatch, cpus, quota, number):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert num_doors(Config(), cgroup(tmp_path, quota)) == number


@pytest.mark.parametrize(("given", "number"), [(1, 0), (2, 2), (64, 64)])
def test_a_number_that_is_set_holds(given, number):
    assert num_doors(Config(http_processes=given)) == number


@pytest.mark.parametrize("given", [0, 65])
def test_no_other_number_can_be_set(given):
    with pytest.raises(ValueError, match="http_processes"):
        Config(http_processes=given)


def keyed(**settings) -> Config:
    return Config(auth="api-key", api_keys_file="/keys.toml", **settings)


def test_doors_that_count_for_themselves_are_refused_with_what_would_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    with pytest.raises(SettingError, match=r"http_processes=2 .* redis://HOST:PORT, or .* to 1"):
        num_doors(keyed(http_processes=2))
    assert num_doors(keyed(http_processes=1)) == 0
    assert num_doors(keyed(), cgroup(tmp_path, None)) == 0
    shared = {"limit_storage": "redis://127.0.0.1:1/0"}
    assert num_doors(keyed(http_processes=2, **shared)) == 2
    assert num_doors(keyed(**shared), cgroup(tmp_path, None)) == 4


def test_on_windows_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(sys, "platform", "win32")
    assert num_doors(Config(), cgroup(tmp_path, None)) == 0
    with pytest.raises(SettingError, match="Windows; leave it out"):
        num_doors(Config(http_processes=2))


def test_a_worker_without_any_has_none_to_wait_for():
    async def scenario():
        none = NoDoors()
        none.start()
        none.leave()
        await none.aclose()
        assert none.are_closed

    play(scenario)


@asynccontextmanager
async def standing(tmp_path, monkeypatch, program: str = WAITS, number: int = 2):
    """Run doors that are such programs; yield them, and how to read their pids."""
    file = tmp_path / "orders"
    file.touch()
    monkeypatch.setattr(doors, "COMMAND", (sys.executable, "-S", "-c", program, str(file)))
    monkeypatch.setattr(doors, "PAUSE_S", 0.01)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        made = Doors([listener], Config(http_processes=number), number)
        try:
            yield made, lambda: [int(one.split()[0]) for one in file.read_text().splitlines()]
        finally:
            await made.aclose()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_of_two_that_bound_a_port_the_second_that_listens_says_so(monkeypatch, caplog):
    bind = serving._bound

    async def bound(host, port):
        found = await bind(host, port)
        other.bind(found[0].getsockname())
        other.listen()
        return found

    monkeypatch.setattr(serving, "_bound", bound)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(SystemExit) as ended:
            serving._listeners("127.0.0.1", 0, 8)
    assert ended.value.code == 1
    assert "Address already in use" in caplog.text


def test_a_port_that_is_in_use_is_named(caplog):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            serving._listeners("127.0.0.1", port, 8)
    assert ended.value.code == 1
    assert f"host=127.0.0.1 port={port} cannot be had" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="others have one loopback address")
def test_every_address_of_a_host_is_listened_on(monkeypatch):
    def addresses(host, port, *_, **__):
        assert host == "both"
        both = ("127.0.0.1", "127.0.0.2")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in both]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    listeners = serving._listeners("both", 0, 8)
    try:
        assert {one.getsockname()[0] for one in listeners} == {"127.0.0.1", "127.0.0.2"}
        for one in listeners:
            with socket.socket() as caller:
                caller.settimeout(5)
                caller.connect(one.getsockname())
    finally:
        for one in listeners:
            one.close()


def test_doors_are_told_what_they_need_and_end_with_the_worker(tmp_path, monkeypatch):
    async def scenario():
        async with standing(tmp_path, monkeypatch) as (made, pids):
            folder = Path(made.socket).parent
            assert folder.stat().st_mode & 0o077 == 0
            made.start()
            await until(lambda: len(pids()) == 2)
            assert not made.are_closed
            orders = (tmp_path / "orders").read_text().splitlines()
            for one in orders:
                order = doors.Order.model_validate_json(one.partition(" ")[2])
                assert order.socket == made.socket
                assert order.config() == Config(http_processes=2)
            made.leave()
            made.leave()
            await until(lambda: made.are_closed)
        assert all(is_gone(one) for one in pids())
        assert not folder.exists()

    play(scenario)


def test_one_that_ends_is_followed_by_another(tmp_path, monkeypatch, caplog):
    async def scenario():
        async with standing(tmp_path, monkeypatch, number=1) as (made, pids):
            made.start()
            await until(lambda: len(pids()) == 1)
            os.kill(pids()[0], signal.SIGKILL)
            await until(lambda: len(pids()) == 2)
            assert is_gone(pids()[0])
            assert "a door ended status=-9" in caplog.text
        assert is_gone(pids()[1])

    play(scenario)


def test_one_that_cannot_be_started_is_tried_again(tmp_path, monkeypatch, caplog):
    async def scenario():
        async with standing(tmp_path, monkeypatch, number=1) as (made, pids):
            command = doors.COMMAND
            monkeypatch.setattr(doors, "COMMAND", ("/nowhere/python",))
            made.start()
            await until(lambda: "a door cannot be started" in caplog.text)
            monkeypatch.setattr(doors, "COMMAND", command)
            await until(lambda: len(pids()) == 1)

    play(scenario)


def test_one_that_does_not_hear_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(doors, "LAST_WORDS_S", 0.05)

    async def scenario():
        async with standing(tmp_path, monkeypatch, DEAF) as (made, pids):
            made.start()
            await until(lambda: len(pids()) == 2)
            made.leave()
            assert not made.are_closed
        assert all(is_gone(one) for one in pids())

    play(scenario)


def test_a_worker_that_leaves_while_one_starts_leaves_none(tmp_path, monkeypatch):
    async def scenario():
        async with standing(tmp_path, monkeypatch) as (made, _):
            made.start()
            await asyncio.sleep(0)
            made.leave()
        assert made.are_closed
        assert not made._processes

    play(scenario)
