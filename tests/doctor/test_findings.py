"""What the doctor finds, on folders, workers and programs made for it."""

import json
import socket
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from sie_mcp.config import Config
from sie_mcp.doctor import entries, machine, network, pools, storage, worker
from sie_mcp.doctor.findings import Finding
from sie_mcp.errors import SettingError
from sie_mcp.gateway.lock import take_lock
from sie_mcp.gateway.worker_settings import worker_name
from tests.doctor.verdicts import verdicts
from tests.install.places import places_in
from tests.scripted_worker import ScriptedWorker


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"worker_url": "http://127.0.0.1:1"},
        {"workers": ("http://127.0.0.1:1",)},
        {"pools_file": Path("/pools.toml")},
    ],
)
def test_with_workers_elsewhere_nothing_of_the_engine_is_needed(elsewhere, tmp_path):
    config = Config(cache_dir=tmp_path, **elsewhere)
    found = machine.engine(config) + network.sources(config, {}) + storage.models(config)
    assert set(verdicts(found).values()) == {"ok"}


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


@pytest.mark.anyio
async def test_workers_of_pools_are_asked_each(config):
    nobody = "http://127.0.0.1:1"

    async def judged(*urls: str) -> list[Finding]:
        there = config.model_copy(update={"workers": urls})
        return await off_loop(worker.worker, there)

    async with ScriptedWorker().running() as url:
        assert verdicts(await judged(url)) == {"pool default": "ok"}
        assert verdicts(await judged(url, nobody)) == {"pool default": "warn"}
        (found,) = await judged(url, nobody)
        assert found.text.startswith(f"1 of 2 workers ready; {nobody} does not answer")
    assert verdicts(await judged(url, nobody)) == {"pool default": "fail"}


@pytest.mark.anyio
async def test_names_of_pools_are_looked_up(config, tmp_path, monkeypatch):
    look_up = socket.getaddrinfo

    def looked_up(host, *args, **words):
        host = host.decode() if isinstance(host, bytes) else host
        if host == "here.test":
            return look_up("127.0.0.1", *args, **words)
        if host in ("asleep.test", "broken.test"):
            raise socket.gaierror(
                socket.EAI_NONAME if host == "asleep.test" else socket.EAI_AGAIN, "no"
            )
        return look_up(host, *args, **words)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    file = tmp_path / "pools.toml"
    async with ScriptedWorker().running() as url:
        port = url.rpartition(":")[2]
        file.write_text(
            f'default = "here"\n[pools.here]\nworkers = ["dns://here.test:{port}"]\n'
            '[pools.asleep]\nworkers = ["dns://asleep.test:9000"]\n'
            '[pools.broken]\nworkers = ["dns://broken.test:9000"]\n'
            '[pools.followed]\nservice = "models/sie-l4"\n'
        )
        there = config.model_copy(update={"pools_file": file})
        assert verdicts(await off_loop(worker.worker, there)) == {
            "pool here": "ok",
            "pool asleep": "warn",
            "pool broken": "fail",
            "pool followed": "ok",
        }


def test_many_workers_are_looked_at_in_part(config, monkeypatch):
    monkeypatch.setattr(pools, "MAX_LOOKED_AT", 2)
    monkeypatch.setattr(pools, "status", lambda *_: "ready")
    there = config.model_copy(update={"workers": tuple(f"http://w{n}:1" for n in range(5))})
    (found,) = worker.worker(there)
    assert (found.verdict, found.text) == ("ok", "2 of 2 workers ready, 3 more not looked at")


def test_what_names_no_workers_is_an_error(config):
    with pytest.raises(SettingError, match="give http://host:port of each"):
        worker.worker(config.model_copy(update={"workers": ("ftp://a",)}))


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


async def off_loop(function, *arguments):
    """Call from a thread, so that the loop of the test can answer."""
    return await anyio.to_thread.run_sync(function, *arguments)
