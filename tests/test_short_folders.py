"""Folders in the temporary one: held while somebody may use them, and removed after the last."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sie_mcp.config import Config
from sie_mcp.doctor.worker import worker as doctors_view
from sie_mcp.gateway import runtime_folder
from sie_mcp.gateway.lock import take_lock
from sie_mcp.gateway.runtime_folder import MAX_SOCKET_PATH, held_folder
from sie_mcp.short_folders import EVIDENCE_S, UNLOCKED_S, USERS, Use, is_short, leave, remove_old

SOCKET = "worker-0123456789abcdef.sock"
LONG = "x" * MAX_SOCKET_PATH


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder of the test's own, with a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def held(wanted: str = LONG) -> tuple[Path, Use]:
    folder, use = held_folder(Path("/", wanted), SOCKET)
    assert use is not None
    return folder, use


def written(folder: Path, name: str, *, age_s: float = 0.0, content: str = "said") -> Path:
    path = folder / name
    path.write_text(content)
    made_s = time.time() - age_s
    os.utime(path, (made_s, made_s))
    return path


def abandoned(folder: Path) -> None:
    """Leave a folder as a gateway and a worker do that are killed."""
    written(folder, "worker-1.lock")
    written(folder, "worker-1.sock")


def test_the_last_gateway_removes_the_folder_and_no_other(temporary):
    folder, first = held()
    same, second = held()
    assert same == folder
    assert folder.parent == temporary
    first.end()
    assert folder.exists()
    second.end()
    assert list(temporary.iterdir()) == []


def test_a_folder_that_somebody_named_is_never_removed(temporary):
    folder, use = held_folder(temporary / "run", SOCKET)
    assert use is None
    leave(folder / SOCKET)
    remove_old()
    assert folder.exists()


def test_a_worker_that_lives_keeps_the_folder_and_removes_it_when_it_leaves_in_order(temporary):
    folder, use = held()
    lock = take_lock(folder / "worker-1.lock")
    written(folder, "worker-1.log")
    use.end()
    remove_old()
    assert folder.exists()
    # Its own lock is still held then.
    leave(folder / "worker-1.sock")
    assert list(temporary.iterdir()) == []
    with lock:
        pass


def test_a_worker_that_leaves_removes_nothing_while_a_gateway_or_another_worker_is_there(temporary):
    folder, use = held()
    leave(folder / SOCKET)
    assert folder.exists()
    with take_lock(folder / "worker-2.lock"):
        use.end()
        leave(folder / SOCKET)
        assert folder.exists()
    leave(folder / SOCKET)
    assert not folder.exists()


def test_what_was_killed_is_removed_at_a_later_start_and_nothing_of_others(temporary):
    dead, use = held("a" * MAX_SOCKET_PATH)
    abandoned(dead)
    os.close(use._fd)  # As a process that is killed.
    alive, other = held("b" * MAX_SOCKET_PATH)
    abandoned(alive)
    strange = temporary / f"sie-mcp-{os.getuid()}-folder"
    strange.mkdir()
    (temporary / f"sie-mcp-{os.getuid()}-01234567").symlink_to(alive)
    (temporary / f"sie-mcp-{os.getuid()}-76543210").touch()
    remove_old()
    assert not dead.exists()
    assert (alive / "worker-1.sock").exists()
    assert len(list(temporary.iterdir())) == 4
    other.end()


def test_a_young_log_of_a_worker_that_ended_badly_stays_for_who_was_told_of_it(temporary):
    folder, use = held()
    log = written(folder, "worker-1.log")
    use.end()
    assert log.exists()
    written(folder, "worker-1.log", age_s=EVIDENCE_S + 1)
    remove_old()
    assert not folder.exists()


def test_a_folder_of_an_earlier_version_has_a_day(temporary):
    folder = temporary / f"sie-mcp-{os.getuid()}-0123abcd"
    folder.mkdir(mode=0o700)
    written(folder, "worker-1.lock", age_s=2 * UNLOCKED_S)
    remove_old()
    assert folder.exists()
    old_s = time.time() - UNLOCKED_S - 1
    os.utime(folder, (old_s, old_s))
    remove_old()
    assert not folder.exists()


def test_a_folder_that_holds_more_than_is_ours_stays(temporary):
    folder, use = held()
    (folder / "kept").mkdir()
    use.end()
    assert (folder / "kept").exists()


def test_one_that_is_removed_just_then_is_made_again(temporary, monkeypatch):
    made = runtime_folder.runtime_folder
    times = []

    def removed_once(wanted, name):
        folder = made(wanted, name)
        times.append(folder)
        if len(times) == 1:
            folder.rmdir()
        return folder

    monkeypatch.setattr(runtime_folder, "runtime_folder", removed_once)
    folder, use = held()
    assert len(times) == 2
    assert (folder / USERS).exists()
    use.end()


def test_the_doctor_leaves_no_folder(temporary):
    doctors_view(Config(runtime_dir=Path("/", LONG)))
    assert list(temporary.iterdir()) == []


HOLDS = """
import os, sys
from pathlib import Path
from sie_mcp.config import Config
from sie_mcp.gateway.supervisor import LocalWorker
worker = LocalWorker(Config(runtime_dir=Path(sys.argv[1])))
print("held", flush=True)
if sys.stdin.readline().strip() == "die":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["end", "die"])
def test_other_processes_hold_theirs_and_let_go_however_they_end(temporary, end):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS, "/" + LONG],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "held\n"
        (folder,) = temporary.iterdir()
        assert is_short(folder)
        remove_old()
        assert folder.exists()
        print(end, file=child.stdin, flush=True)
        child.wait(30)
    assert folder.exists() == (end == "die")
    remove_old()
    assert not folder.exists()


def test_a_worker_that_is_told_to_end_leaves_no_folder(temporary):
    folder, use = held()
    path = folder / "worker-1.sock"
    with written(folder, "worker-1.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.toy_worker", "--uds", str(path)],
            cwd=Path(__file__).parents[1],
            env=os.environ | {"TMPDIR": str(temporary), "SIE_MCP_CACHE_DIR": str(temporary / "c")},
            stdout=log,
            stderr=log,
        )
    with child:
        # Until it answers a signal may end it there and then.
        for _ in range(600):
            if is_ready(path):
                break
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
        use.end()
        assert path.exists()
        child.terminate()
        assert child.wait(60) == 0
    assert not folder.exists()


def is_ready(path: Path) -> bool:
    """Whether a worker says so at its socket."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(30)
        try:
            asked.connect(str(path))
            asked.sendall(b"GET /readyz HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n")
            return asked.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False
