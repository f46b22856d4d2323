"""What the doctor finds, on folders, workers and programs made for it."""

import io
import json
import os
import socket
import sys
from dataclasses import replace

import anyio.to_thread
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sie_mcp import cli_doctor
from sie_mcp.config import Config
from sie_mcp.doctor import entries, machine, network, storage, worker
from sie_mcp.doctor.findings import Finding
from sie_mcp.doctor.probe import probe
from sie_mcp.gateway.lock import take_lock
from sie_mcp.gateway.worker_settings import worker_name
from tests.install.places import places_in
from tests.scripted_worker import ScriptedWorker

GPU = {
    "name": "cuda:0",
    "dtype": "bfloat16",
    "free_bytes": 80_000_000_000,
    "budget_bytes": 64_000_000_000,
}
SEEN = {
    "torch": "2.13.0",
    "cuda": "13.0",
    "gpus": ["H100"],
    "has_mps": False,
    "flash_attn": {},
    "devices": [GPU],
}


@pytest.fixture
def config(tmp_path):
    return Config(cache_dir=tmp_path / "cache", runtime_dir=tmp_path / "run", offline=True)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def verdicts(findings: list[Finding]) -> dict[str, str]:
    """Every warning and failure says what to do, and nothing else does."""
    for finding in findings:
        assert bool(finding.fix) == (finding.verdict != "ok"), finding
    return {finding.name: finding.verdict for finding in findings}


def engine_of(config: Config, seen: dict[str, object]) -> list[Finding]:
    return machine.engine(config, (sys.executable, "-c", f"print({json.dumps(seen)!r})"))


def test_this_machines_torch_is_looked_at_in_another_process(config):
    before = set(sys.modules)
    found = machine.engine(config)
    assert verdicts(found)["torch"] in ("ok", "warn")
    assert set(sys.modules) == before


def test_the_probe_says_what_a_setting_asks_for_in_vain():
    assert probe("cpu", "auto", "0.5")["devices"][0]["dtype"] == "float32"
    assert len(probe("cpu,cpu", "auto", "0.5")["devices"]) == 1
    assert "unknown" in probe("toaster", "auto", "0.5")["refused"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"torch": "ok", "device": "ok", "flash-attn": "warn", "memory": "ok"}),
        ({"flash_attn": {"version": "2.8"}}, {"flash-attn": "ok"}),
        ({"flash_attn": {"error": "ImportError: undefined symbol"}}, {"flash-attn": "fail"}),
        ({"devices": [GPU | {"name": "cpu"}], "gpus": []}, {"flash-attn": "ok"}),
        ({"devices": [GPU | {"budget_bytes": 10_000_000}]}, {"memory": "warn"}),
        ({"devices": [GPU | {"budget_bytes": 90_000_000_000}]}, {"memory": "warn"}),
    ],
)
def test_a_gpu_machine_is_judged(config, change, expected):
    found = verdicts(engine_of(config, SEEN | change))
    assert {name: found[name] for name in expected} == expected


def test_a_device_that_is_not_there_fails(config):
    seen = {key: SEEN[key] for key in ("torch", "cuda", "gpus", "has_mps", "flash_attn")}
    found = engine_of(config, seen | {"refused": "device 'cuda': this machine has none"})
    assert verdicts(found) == {"torch": "ok", "device": "fail"}


def test_a_gpu_that_torch_does_not_see_is_remarked_on(config, monkeypatch, tmp_path):
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = engine_of(config, SEEN | {"gpus": [], "cuda": None, "devices": []})
    assert verdicts(found)["torch"] == "warn"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise ModuleNotFoundError('No module named torch')", "engine is not installed"),
        ("raise OSError('libcudart.so')", "libcudart.so"),
        ("raise SystemExit(3)", "without a word"),
    ],
)
def test_an_engine_that_does_not_start_fails(config, program, reason):
    (found,) = machine.engine(config, (sys.executable, "-c", program))
    assert found.verdict == "fail"
    assert reason in found.text
    assert "sie-mcp[engine]" in found.fix


def test_a_torch_that_hangs_does_not_hold_up_the_doctor(config, monkeypatch):
    monkeypatch.setattr(machine, "PROBE_LIMIT_S", 0.2)
    (found,) = machine.engine(config, (sys.executable, "-c", "import time; time.sleep(60)"))
    assert found.verdict == "fail"
    assert "more than 0.2 s" in found.text


def test_with_a_worker_elsewhere_nothing_of_the_engine_is_needed(tmp_path):
    config = Config(worker_url="http://127.0.0.1:1", cache_dir=tmp_path)
    found = machine.engine(config) + network.sources(config, {}) + storage.models(config)
    assert set(verdicts(found).values()) == {"ok"}


def test_python_is_named():
    (found,) = machine.python()
    assert sys.executable in found.text


def test_the_cache_is_made_and_measured(config, monkeypatch):
    assert verdicts(storage.cache(config))["cache"] == "ok"
    assert not list(config.cache_dir.iterdir())
    monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 10**18)
    assert verdicts(storage.cache(config))["disk"] == "warn"


def test_a_cache_in_the_way_of_a_file_fails(config):
    config.cache_dir.touch()
    assert verdicts(storage.cache(config)) == {"cache": "fail"}


def test_missing_models_matter_most_without_a_network(config, monkeypatch):
    monkeypatch.setattr(storage, "find_local", lambda *_: None)
    assert verdicts(storage.models(config)) == {"models": "fail"}
    online = config.model_copy(update={"offline": False})
    assert verdicts(storage.models(online)) == {"models": "warn"}
    monkeypatch.setattr(storage, "find_local", lambda *_: config.cache_dir)
    assert verdicts(storage.models(config)) == {"models": "ok"}


def test_offline_nobody_is_asked(config):
    assert verdicts(network.sources(config, {})) == {"hub": "ok"}


def test_whoever_does_not_answer_is_named_without_its_password(config):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        online = config.model_copy(
            update={"offline": False, "index_url": f"http://me:secret@{place}/simple"}
        )
        found = network.sources(online, {"HF_ENDPOINT": f"http://{place}"})
    assert verdicts(found) == {"hub": "warn", "index": "warn"}
    assert all(place in finding.text for finding in found)
    assert not any("secret" in finding.text for finding in found)


@pytest.mark.anyio
async def test_a_hub_that_answers_anything_is_reachable():
    async with ScriptedWorker().running() as url:
        assert await off_loop(network.answers, f"{url}/api/models") == "HTTP 404"


def test_silence_is_bounded():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises((TimeoutError, network.httpx2.TimeoutException)):
            network.answers(url, 0.2)


def test_without_a_worker_all_is_well(config):
    assert verdicts(worker.worker(config)) == {"worker": "ok"}


@pytest.mark.anyio
async def test_a_local_worker_that_answers_is_named(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("w")
    folder.chmod(0o700)
    config = config.model_copy(update={"runtime_dir": folder})
    name = worker_name(config)
    lock = take_lock(folder / f"{name}.lock")
    assert lock is not None
    with lock:
        lock.note("4711")
        silent = await off_loop(worker.worker, config)
        async with ScriptedWorker().running(folder / f"{name}.sock"):
            ready = await off_loop(worker.worker, config)
        other = worker.worker(config.model_copy(update={"device": "cpu"}))
    assert verdicts(silent) == {"worker": "warn"}
    assert verdicts(ready) == {"worker": "ok"}
    assert "process 4711" in ready[0].text
    assert verdicts(other) == {"worker": "ok", "other workers": "warn"}


@pytest.mark.anyio
async def test_a_worker_at_a_url_must_answer(config):
    async with ScriptedWorker().running() as url:
        there = config.model_copy(update={"worker_url": url})
        assert verdicts(await off_loop(worker.worker, there)) == {"worker": "ok"}
        odd = config.model_copy(update={"worker_url": f"{url}/v1"})
        assert verdicts(await off_loop(worker.worker, odd)) == {"worker": "warn"}
    assert verdicts(await off_loop(worker.worker, there)) == {"worker": "fail"}


def test_a_runtime_folder_of_somebody_else_fails(config):
    config.runtime_dir.touch()
    assert verdicts(worker.worker(config)) == {"worker": "fail"}


def test_the_entries_of_clients_are_found_and_judged(tmp_path):
    places = places_in(tmp_path)
    assert verdicts(entries.entries(places)) == {"clients": "warn"}
    files = {
        places.home / ".claude.json": {
            "mcpServers": {"sie": {"type": "http", "url": "https://x/mcp"}, "other": {}}
        },
        places.home / ".cursor" / "mcp.json": {
            "mcpServers": {"mine": {"command": "/no/such", "args": ["-m", "sie_mcp", "stdio"]}}
        },
        places.project / ".mcp.json": {"mcpServers": {"sie": {"command": sys.executable}}},
        places.project / ".vscode" / "mcp.json": {"servers": {"sie": {}, "x": 3}},
        places.settings / "Claude" / "claude_desktop_config.json": {
            "mcpServers": {"sie": {"command": "no-such-program"}}
        },
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    (places.project / ".cursor").mkdir()
    (places.project / ".cursor" / "mcp.json").write_text("// mine\n{}")
    places.codex.mkdir()
    (places.codex / "config.toml").write_text('[mcp_servers.sie]\ncommand = "python"\n')
    assert verdicts(entries.entries(places)) == {
        "claude-code (user)": "ok",
        "claude-code (project)": "ok",
        "claude-desktop (user)": "fail",
        "cursor (user)": "fail",
        "cursor (project)": "warn",
        "vscode (project)": "fail",
        "codex (user)": "ok",
    }


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


async def off_loop(function, *arguments):
    """Call from a thread, so that the loop of the test can answer."""
    return await anyio.to_thread.run_sync(function, *arguments)
