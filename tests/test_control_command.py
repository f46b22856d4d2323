"""`sie-mcp models load | unload | pin | unpin | memory`, as a user runs them beside a worker."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sie_mcp.cli_control import app
from sie_mcp.config import Config
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

Command = Callable[..., Result]


@pytest.fixture
def worker_url(tmp_path) -> Iterator[str]:
    """A worker of toys on a loop of its own, as the commands have theirs."""
    found: list[str] = []
    is_up, is_over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        config = Config(cache_dir=tmp_path, memory_budget="2MiB", max_batch_tokens=1)
        loader = ToyLoader(sizes={"a": 1_000_000, "b": 1_000_000})
        async with serving(make_worker(config, loader).app) as url:
            found.append(url)
            is_up.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(30)
    yield found[0]
    loops[0].call_soon_threadsafe(is_over.set)
    thread.join(30)


@pytest.fixture
def command(monkeypatch, tmp_path) -> Command:
    monkeypatch.setenv("SIE_MCP_RUNTIME_DIR", str(tmp_path / "run"))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    return run


def test_a_model_is_loaded_pinned_shown_and_unloaded(command, worker_url):
    at = ("--worker-url", worker_url)
    assert command("load", "a", "--pin", *at).stdout == "a: loaded on cpu (1.0 MB, pinned)\n"
    header, row, summary = command("memory", *at).stdout.splitlines()
    assert header.split("\t")[:6] == ["device", "model", "state", "size", "users", "pinned"]
    assert row.split("\t")[:6] == ["cpu", "a", "loaded", "1.0 MB", "0", "yes"]
    assert summary.startswith("cpu: 1.0 MB of models and 0.1 MB reserved of 2.1 MB; 1 loads")
    assert command("unpin", "a", *at).stdout.splitlines()[1].split("\t")[5] == "no"
    assert command("pin", "a", *at).stdout == "a: loaded on cpu (1.0 MB, pinned)\n"
    account = json.loads(command("memory", "--json", *at).stdout)
    assert account["devices"][0]["pinned_bytes"] == 1_000_000
    (summary,) = command("unload", "a", *at).stdout.splitlines()
    assert summary.startswith("cpu: 0.0 MB of models")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("load", "missing"), 2, "error: no model 'missing'"),
        (("pin", "b"), 1, "error: b is not loaded; load it with {'pin': true}"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(
    command, worker_url, arguments, code, message
):
    result = command(*arguments, "--worker-url", worker_url)
    assert result.exit_code == code
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("memory",), ("unload", "a"), ("pin", "a"), ("unpin", "a")])
def test_no_worker_is_started_only_to_be_asked(command, arguments):
    result = command(*arguments)
    assert result.exit_code == 1
    assert "no local worker runs with these settings" in result.stderr
