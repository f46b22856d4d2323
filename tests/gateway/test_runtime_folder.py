"""The folder of the worker's socket: private, short enough, or refused with what to do."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from sie_mcp.errors import SettingError
from sie_mcp.gateway.runtime_folder import MAX_SOCKET_PATH, runtime_folder

NAME = "worker-0123456789abcdef.sock"


@pytest.fixture
def short(monkeypatch):
    """A folder with a short path, and the system's temporary folder besides."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder + "/tmp")
        Path(folder, "tmp").mkdir()
        yield Path(folder)


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_a_missing_folder_is_made_for_the_user_alone(short):
    folder = runtime_folder(short / "a" / "b", NAME)
    assert folder == short / "a" / "b"
    assert mode_of(folder) == 0o700


def test_a_folder_that_others_can_read_is_closed(short):
    (short / "run").mkdir(mode=0o755)
    assert mode_of(runtime_folder(short / "run", NAME)) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(short, mode):
    (short / "run").mkdir()
    (short / "run").chmod(mode)
    with pytest.raises(SettingError, match=r"can be written to by others; run `chmod 700 "):
        runtime_folder(short / "run", NAME)


def test_a_link_or_a_file_is_refused(short):
    (short / "real").mkdir(mode=0o700)
    (short / "link").symlink_to(short / "real")
    with pytest.raises(SettingError, match="not a folder of this user; set SIE_MCP_RUNTIME_DIR"):
        runtime_folder(short / "link", NAME)
    (short / "file").touch()
    with pytest.raises(SettingError, match="SIE_MCP_RUNTIME_DIR"):
        runtime_folder(short / "file", NAME)


def test_another_users_folder_is_refused(short, monkeypatch):
    (short / "run").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(SettingError, match="not a folder of this user"):
        runtime_folder(short / "run", NAME)


def test_a_long_path_gives_way_to_a_short_private_one(short):
    long = short / ("x" * MAX_SOCKET_PATH)
    folder = runtime_folder(long, NAME)
    assert folder.parent == short / "tmp"
    assert mode_of(folder) == 0o700
    assert len(os.fsencode(folder / NAME)) <= MAX_SOCKET_PATH
    assert not long.exists()
    # The same for every gateway, another for another folder.
    assert runtime_folder(long, NAME) == folder
    assert runtime_folder(short / ("y" * MAX_SOCKET_PATH), NAME) != folder


def test_bytes_count_and_not_characters(short):
    wanted = short / ("ä" * 40)
    assert runtime_folder(wanted, NAME).parent == short / "tmp"


def test_two_long_paths_leave_no_choice(short, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(short / ("z" * MAX_SOCKET_PATH)))
    with pytest.raises(SettingError, match="both paths are too long; set SIE_MCP_RUNTIME_DIR"):
        runtime_folder(short / ("x" * MAX_SOCKET_PATH), NAME)


def test_a_platform_without_unix_sockets_is_told_the_other_way(short, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(SettingError, match="SIE_MCP_WORKER_URL"):
        runtime_folder(short, NAME)
