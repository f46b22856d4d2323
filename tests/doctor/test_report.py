"""The doctor's report, as a person and as a program reads it."""

import io
import json
import os
import sys
from dataclasses import replace

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sie_mcp import cli_doctor
from sie_mcp.doctor import machine, storage
from sie_mcp.doctor.findings import Finding
from tests.doctor.verdicts import SEEN


@pytest.fixture
def run(monkeypatch, tmp_path):
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "SIE_MCP_CACHE_DIR": str(tmp_path / "cache"),
        "SIE_MCP_RUNTIME_DIR": str(tmp_path / "run"),
        "SIE_MCP_OFFLINE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine.engine, "__defaults__", ((sys.executable, "-c", PROBE),))
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(cli_doctor.doctor)

    def invoke(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout

    return invoke


PROBE = f"print({json.dumps(SEEN)!r})"


def test_the_report_is_one_line_a_finding_with_the_fix_below(run, monkeypatch):
    monkeypatch.setattr(storage, "find_local", lambda *_: os)
    code, out = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "ok", "ok", "ok", "warn", "fix:", *["ok"] * 7, "warn", "fix:"
    ]  # fmt: skip


def test_programs_get_json_and_a_failure_has_its_exit_code(run, monkeypatch):
    monkeypatch.setattr(storage, "find_local", lambda *_: None)
    code, out = run("--json")
    assert code == 1
    found = {one["name"]: one for one in json.loads(out)["findings"]}
    assert found["models"]["verdict"] == "fail"
    assert found["models"]["fix"]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_wrong_setting_is_a_finding(run, monkeypatch, flags):
    monkeypatch.setenv("SIE_MCP_DEVISE", "cpu")
    code, out = run(*flags)
    assert code == 1
    assert "did you mean SIE_MCP_DEVICE?" in out


def test_a_catalogue_that_is_broken_is_a_finding(run, monkeypatch, tmp_path):
    (tmp_path / "models.toml").write_text("x = ")
    monkeypatch.setenv("SIE_MCP_CATALOGUE_FILE", str(tmp_path / "models.toml"))
    code, out = run()
    assert code == 1
    assert "models.toml" in out


def test_a_report_keeps_its_words_on_a_narrow_terminal(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(cli_doctor, "Console", lambda: Console(file=out, width=20))
    cli_doctor._print(replace(Finding("x", "warn", "[red] " + "y" * 90), fix="[z]"))
    assert "[red] " + "y" * 90 in out.getvalue()
    assert "fix: [z]" in out.getvalue()
