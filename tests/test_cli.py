"""The command line: what it refuses, and how. Programs that run are tested from end to end."""

import sys

import pytest
from typer.testing import CliRunner

import sie_mcp
from sie_mcp import cli
from sie_mcp.engine import torch_parts


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command line; return its exit code, stdout and stderr."""
    monkeypatch.setenv("SIE_MCP_RUNTIME_DIR", str(tmp_path / "run"))
    # A runner's streams are no files, so the protocol's pipe is not taken here.
    monkeypatch.setattr(cli, "_claim_stdout", lambda: sys.stdout)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(cli.app, arguments)
        return result.exit_code, result.stdout, result.stderr

    return invoke


def test_the_version_is_the_packages(run):
    assert run("--version") == (0, f"{sie_mcp.__version__}\n", "")


def test_help_names_every_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sie-mcp", "--help"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for command in ("stdio", "serve", "worker", "models", "install", "call", "doctor"):
        assert command in shown


@pytest.mark.parametrize("command", [["stdio"], ["serve"], ["worker", "--port", "0"]])
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SIE_MCP_LOAD_WAITS", "3", "SIE_MCP_LOAD_WAITS='3'; did you mean SIE_MCP_LOAD_WAIT_S?"),
        ("SIE_MCP_LOAD_WAIT_S", "soon", "SIE_MCP_LOAD_WAIT_S = 'soon': Input should be a valid"),
    ],
)
def test_a_wrong_setting_stops_every_program_with_one_line(
    run, monkeypatch, command, variable, value, message
):
    monkeypatch.setenv(variable, value)
    code, stdout, stderr = run(*command)
    assert code == 2
    assert stdout == ""
    assert message in stderr
    assert stderr.startswith("sie-mcp: ")
    assert stderr.count("\n") == 1


def test_a_wrong_flag_is_a_wrong_setting(run):
    code, _, stderr = run("stdio", "--worker-url", "localhost:9")
    assert code == 2
    assert "SIE_MCP_WORKER_URL = 'localhost:9': a URL starts with http:// or https://" in stderr


@pytest.mark.parametrize("command", ["stdio", "serve"])
def test_a_runtime_folder_that_cannot_be_used_stops_the_start(run, monkeypatch, tmp_path, command):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIE_MCP_RUNTIME_DIR", str(tmp_path / "file"))
    code, _, stderr = run(command)
    assert code == 2
    assert stderr.startswith("sie-mcp: runtime_dir ")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize("flags", [[], ["--uds", "/x", "--port", "9"]])
def test_a_worker_listens_at_exactly_one_place(run, flags):
    code, _, stderr = run("worker", *flags)
    assert (code, stderr) == (2, "sie-mcp: give either --uds PATH or --port N\n")


def test_a_worker_without_the_engine_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sie_mcp.engine.main", None)
    code, _, stderr = run("worker", "--port", "0")
    assert code == 2
    assert "pip install 'sie-mcp[engine]'" in stderr


def test_a_worker_imports_torch_for_serving_before_anything_that_uses_it(run, monkeypatch):
    seen = []
    monkeypatch.setattr(torch_parts, "import_torch", lambda: seen.append("torch"))
    whole = cli.importlib.import_module

    def noted(name):
        seen.append(name)
        return whole(name)

    monkeypatch.setattr(cli.importlib, "import_module", noted)
    monkeypatch.setattr(cli, "_guarded", lambda *_, **__: None)
    assert run("worker", "--port", "0")[0] == 0
    assert seen[:3] == ["sie_mcp.engine.torch_parts", "torch", "sie_mcp.engine.main"]


def test_folders_can_be_named_one_by_one(run, monkeypatch):
    seen = []
    monkeypatch.setattr(cli, "_guarded", lambda function, config, *_: seen.append(config))
    assert run("stdio", "--allow", "/a", "--allow", "/b", "--log-level", "debug")[0] == 0
    (config,) = seen
    assert [str(folder) for folder in config.allow] == ["/a", "/b"]
    assert config.log_level == "DEBUG"


@pytest.mark.parametrize("command", ["stdio", "serve"])
def test_an_unknown_tool_stops_the_start_with_one_line(run, command):
    code, _, stderr = run(command, "--tools", "core,rank")
    assert code == 2
    assert stderr == "sie-mcp: tools: there is no tool or toolset 'rank'; did you mean rerank?\n"
