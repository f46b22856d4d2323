"""`sie-mcp install` as a user runs it: what it prints, writes and answers."""

import json
import os
import shlex
import sys

import pytest
import typer
from typer.testing import CliRunner

from sie_mcp.cli_install import install

CLAUDE = """\
#!{python}
import json, os, sys
with open(os.environ["CLAUDE_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit(int(os.environ.get("CLAUDE_CODE_EXIT", "0")))
"""


@pytest.fixture
def home(monkeypatch, tmp_path):
    """An empty home; the working folder is a project in it."""
    for name in [name for name in os.environ if name.startswith("SIE_MCP_")]:
        monkeypatch.delenv(name)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def run(home):
    app = typer.Typer()
    app.command()(install)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout, result.stderr

    return invoke


@pytest.fixture
def claude(home, monkeypatch):
    """A `claude` that writes down how it is called."""
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("CLAUDE_LOG", str(home / "log"))

    def calls() -> list[list[str]]:
        return [json.loads(line) for line in (home / "log").read_text().splitlines()]

    return calls


def test_cursor_gets_its_entry_and_loses_it(run, home):
    code, out, _ = run("cursor", "--allow", ".")
    file = home / ".cursor" / "mcp.json"
    assert code == 0
    assert str(file) in out
    assert json.loads(file.read_text())["mcpServers"]["sie"]["command"] == sys.executable
    assert "already has" in run("cursor", "--allow", ".")[1]
    assert run("cursor", "--remove")[0] == 0
    assert json.loads(file.read_text()) == {"mcpServers": {}}
    assert "already no longer has" in run("cursor", "--remove")[1]


@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode", "codex", "claude-code"])
def test_print_changes_nothing(run, home, client):
    code, out, err = run(client, "--print", "--allow", ".", "--name", "mine")
    assert code == 0
    assert "mine" in out
    assert str(home) in err
    assert [path.name for path in home.rglob("*")] == ["project"]


def test_a_file_with_comments_is_left_and_the_entry_is_shown(run, home):
    file = home / "project" / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  // mine\n  "servers": {}\n}\n')
    code, out, err = run("vscode", "--scope", "project")
    assert code == 1
    assert "was left as it is" in err
    assert json.loads(out)["servers"]["sie"]["type"] == "stdio"
    assert "// mine" in file.read_text()


def test_claude_codes_own_file_is_left_to_its_own_command(run, home, claude):
    code, _, err = run("claude-code", "--env", "A=1")
    assert (code, err) == (0, "")
    (call,) = claude()
    assert call[:5] == ["mcp", "add-json", "--scope", "user", "sie"]
    assert json.loads(call[5])["env"] == {"A": "1"}
    assert not (home / ".claude.json").exists()


def test_an_entry_of_claude_code_is_replaced_only_when_it_differs(run, home, claude):
    run("claude-code")
    entry = json.loads(claude()[0][5])
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"sie": entry}}))
    assert "already has" in run("claude-code")[1]
    assert len(claude()) == 1
    run("claude-code", "--allow", ".")
    assert [call[1] for call in claude()] == ["add-json", "remove", "add-json"]
    run("claude-code", "--remove")
    assert claude()[-1] == ["mcp", "remove", "--scope", "user", "sie"]


def test_without_its_command_claude_codes_file_is_not_touched(run, home):
    code, out, err = run("claude-code", "--scope", "local")
    assert code == 1
    assert "not on the PATH" in err
    assert shlex.split(out)[:6] == ["claude", "mcp", "add-json", "--scope", "local", "sie"]
    (home / ".claude.json").write_text('{"mcpServers": {"sie": {"command": "x"}}}')
    assert run("claude-code", "--remove")[0] == 1


def test_a_command_that_fails_says_why(run, claude, monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_EXIT", "3")
    code, _, err = run("claude-code")
    assert code == 1
    assert "`claude mcp add-json` failed" in err


def test_the_projects_file_of_claude_code_is_ours_to_write(run, home):
    url = "https://mcp.example.com/mcp"
    code, *_ = run("claude-code", "--scope", "project", "--remote", url, "--token-env", "T")
    assert code == 0
    assert json.loads((home / "project" / ".mcp.json").read_text())["mcpServers"]["sie"] == {
        "type": "http",
        "url": url,
        "headers": {"Authorization": "Bearer ${T}"},
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["emacs"], "known: claude-code"),
        (["codex", "--scope", "local"], "known: user, project"),
        (["cursor", "--token-env", "T"], "--token-env goes with --remote"),
        (["cursor", "--remote", "https://x/mcp", "--allow", "."], "for a local server"),
        (["cursor", "--remote", "x"], "is no URL"),
        (["cursor", "--env", "SURELY_NOT_SET"], "give SURELY_NOT_SET=VALUE"),
        (["claude-desktop"], "--allow ~/Documents"),
        (["claude-desktop", "--remote", "https://x/mcp"], "connectors"),
    ],
)
def test_a_flag_that_cannot_be_right_ends_with_one_line(run, arguments, reason):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


def test_a_wrong_setting_is_found_before_it_reaches_a_client(run, monkeypatch, home):
    monkeypatch.setenv("SIE_MCP_DEVISE", "cpu")
    code, _, err = run("cursor")
    assert code == 2
    assert "did you mean SIE_MCP_DEVICE?" in err
    assert not (home / ".cursor").exists()


def test_a_url_without_a_path_is_remarked_on(run):
    assert "answers at /mcp" in run("cursor", "--remote", "https://x", "--print")[2]
