"""How a client is told to start this installation, and what travels to it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sie_mcp.errors import SettingError
from sie_mcp.install.places import Places
from sie_mcp.install.servers import check_url, launch, local_server, settings_to_pass


def test_an_installation_that_stays_is_started_by_its_own_interpreter():
    server = local_server([Path("data")], {})
    assert server.command == sys.executable
    assert server.args[-3:] == ("stdio", "--allow", str(Path.cwd() / "data"))


def test_files_of_a_project_are_never_imported_by_the_command(tmp_path):
    (tmp_path / "anyio.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "typer.py").write_text("raise SystemExit('hijacked')")
    command = [*launch(Path(sys.executable), Path(sys.prefix)), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("prefix", "program"),
    [
        ("/home/me/.cache/uv/archive-v0/x1", "uvx"),
        ("/home/me/.cache/uv/environments-v2/x1", "uvx"),
        ("/home/me/.local/pipx/.cache/x1", "pipx"),
    ],
)
def test_an_environment_made_for_one_run_is_made_again_by_its_tool(prefix, program):
    command = launch(Path(prefix) / "bin/python", Path(prefix))
    assert Path(command[0]).name == program
    assert command[-1] == "sie-mcp"
    assert command[-2].startswith("sie-mcp")
    assert not any(part.startswith(prefix) for part in command)


@pytest.mark.parametrize(
    "prefix", ["/home/me/.local/share/uv/tools/sie-mcp", "/home/me/.local/pipx/venvs/sie-mcp"]
)
def test_an_environment_that_a_tool_keeps_is_used_as_it_is(prefix):
    assert launch(Path(prefix) / "bin/python", Path(prefix))[0] == f"{prefix}/bin/python"


def test_settings_travel_with_absolute_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "SIE_MCP_CACHE_DIR": "c",
        "SIE_MCP_ALLOW": f"a{os.pathsep}/b",
        "SIE_MCP_DEVICE": "cpu",
        "SIE_MCP_HUB_ENDPOINT": "",
        "OTHER": "o",
    }.items():
        monkeypatch.setenv(name, value)
    assert settings_to_pass(os.environ, ["OTHER", "TOKEN=a=b"]) == {
        "SIE_MCP_CACHE_DIR": str(tmp_path / "c"),
        "SIE_MCP_ALLOW": f"{tmp_path / 'a'}{os.pathsep}/b",
        "SIE_MCP_DEVICE": "cpu",
        "OTHER": "o",
        "TOKEN": "a=b",
    }


def test_a_variable_without_a_value_is_refused():
    with pytest.raises(SettingError, match="give NO_SUCH_NAME=VALUE"):
        settings_to_pass({}, ["NO_SUCH_NAME"])


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x/mcp", "https://", "https://a:b@c/mcp"])
def test_what_is_no_plain_web_address_is_refused(url):
    with pytest.raises(SettingError, match="--remote"):
        check_url(url)


def test_variables_move_the_folders_of_clients(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    moved = Places.of_user({"CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d"}, Path("p"))
    assert (moved.codex, moved.claude) == (Path("/c"), Path("/d"))
    usual = Places.of_user({"CODEX_HOME": ""}, Path("p"))
    assert (usual.codex, usual.claude) == (tmp_path / ".codex", tmp_path)
    assert usual.project == Path.cwd() / "p"
    assert usual.settings.is_relative_to(tmp_path)
