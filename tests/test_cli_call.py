"""`sie-mcp call` over a scripted worker: arguments in, tables or JSON out, and the exit code."""

import io
import json
import threading
from collections.abc import Iterator

import anyio
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sie_mcp import cli_call
from sie_mcp.cli_answer import print_answer
from sie_mcp.cli_arguments import read_arguments
from sie_mcp.errors import ModelLoading, SettingError
from tests.scripted_worker import ScriptedWorker, fails_with

SCHEMA = {
    "properties": {
        "query": {"type": "string"},
        "documents": {"type": "array"},
        "top_k": {"type": "integer"},
        "deep": {"type": "boolean"},
        "taxonomy": {"anyOf": [{"type": "string"}, {"type": "array"}]},
    }
}
RERANK = ["--arg", "query=q", "--arg", "model=toy"]
DOCUMENTS = ["--arg", "documents=0.1", "--arg", "documents=0.9"]


@pytest.fixture
def worker() -> Iterator[ScriptedWorker]:
    """A worker that runs on a loop of its own, as a command runs its own too."""
    scripted, ready = ScriptedWorker(), threading.Event()
    loops: dict[str, object] = {}

    async def serve() -> None:
        async with scripted.running() as url:
            loops["url"], loops["done"] = url, anyio.Event()
            loops["token"] = anyio.lowlevel.current_token()
            ready.set()
            await loops["done"].wait()

    thread = threading.Thread(target=lambda: anyio.run(serve))
    thread.start()
    assert ready.wait(20)
    scripted.url = loops["url"]
    yield scripted
    anyio.from_thread.run_sync(loops["done"].set, token=loops["token"])
    thread.join(20)


@pytest.fixture
def run(worker, monkeypatch, tmp_path):
    app = typer.Typer()
    app.command()(cli_call.call)
    monkeypatch.setenv("SIE_MCP_WORKER_URL", worker.url)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        result = CliRunner().invoke(app, arguments, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.stdout, result.stderr

    return invoke


@pytest.fixture
def terminal(monkeypatch):
    """Make every console of the command a terminal, as wide as a table."""

    def console(**options: bool) -> Console:
        return Console(force_terminal=True, width=120, color_system=None, **options)

    monkeypatch.setattr(cli_call, "Console", console)


def test_a_pipe_gets_the_answer_as_json(run):
    code, out, err = run("rerank", *RERANK, *DOCUMENTS, "--arg", "top_k=1")
    assert (code, err) == (0, "")
    assert [one["index"] for one in json.loads(out)["results"]] == [1]


def test_every_tool_is_there_unless_a_setting_says_which(run, monkeypatch):
    code, out, _ = run("--list")
    assert code == 0
    assert {"rerank", "classify", "redact"} <= {one["name"] for one in json.loads(out)}
    monkeypatch.setenv("SIE_MCP_TOOLS", "embed")
    code, _, err = run("rerank", *RERANK, *DOCUMENTS)
    assert code == 2
    assert "no tool 'rerank'; there are: embed" in err


def test_arguments_can_come_as_json_or_from_stdin_and_words_win(run):
    arguments = json.dumps({"query": "q", "documents": ["0.2", "0.3"], "model": "x", "top_k": 2})
    for flags, stdin in ((arguments, ""), ("-", arguments)):
        code, out, _ = run("rerank", "--json", flags, "--arg", "model=toy", stdin=stdin)
        assert code == 0
        assert json.loads(out)["model"] == "toy"


def test_a_terminal_gets_a_table(run, terminal):
    code, out, _ = run("rerank", *RERANK, *DOCUMENTS)
    assert code == 0
    assert "model: toy" in out
    assert "index" in out
    assert "score" in out
    assert "{" not in out


def test_what_the_tool_refuses_ends_with_its_own_words(run):
    code, out, err = run("rerank", *RERANK, *DOCUMENTS, "--arg", "topk=3")
    assert (code, out) == (1, "")
    assert "did you mean top_k?" in err


def test_files_are_read_in_the_working_folder_and_nowhere_else(run, tmp_path):
    (tmp_path / "rows.txt").write_text("0.1\n0.7\n")
    assert json.loads(run("rerank", *RERANK, "--arg", "path=rows.txt")[1])["count"] == 2
    code, _, err = run("rerank", *RERANK, "--arg", "path=/etc/hostname")
    assert code == 1
    assert "/etc/hostname" in err


def test_a_model_that_loads_is_called_again(run, worker, monkeypatch):
    monkeypatch.setenv("SIE_MCP_LOAD_WAIT_S", "0.1")
    worker.script = [fails_with(ModelLoading("toy is loading", retry_after_s=1.0))] * 4
    code, out, _ = run("rerank", *RERANK, *DOCUMENTS)
    assert code == 0
    assert json.loads(out)["count"] == 2


def test_the_tools_and_their_arguments_are_listed(run, terminal, monkeypatch):
    shown = run("--list")[1]
    assert "rerank" in shown
    assert "list_models" in shown
    assert "Scores order passages" in " ".join(run("rerank", "--list")[1].split())
    monkeypatch.setattr(cli_call, "Console", Console)
    listed = json.loads(run("--list")[1])
    assert listed[0]["name"] == "rerank"
    assert json.loads(run("rerank", "--list")[1]) == listed[0]["inputSchema"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no tool ''; there are: rerank"),
        (["rank"], "no tool 'rank'; there are: rerank"),
        (["rerank", "--json", "{"], "--json: not JSON"),
        (["rerank", "--json", "[]"], "give an object"),
        (["rerank", "--arg", "query"], "write it as name=value"),
        (["rerank", "--worker-url", "x"], "starts with http://"),
    ],
)
def test_a_flag_that_cannot_be_right_ends_with_one_line(run, arguments, reason):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


def test_words_become_what_the_schema_says():
    words = ["query=a=b", "documents=x", "documents=y", "top_k=3", "deep=true", "taxonomy=t"]
    assert read_arguments(SCHEMA, words, "", io.StringIO()) == {
        "query": "a=b",
        "documents": ["x", "y"],
        "top_k": 3,
        "deep": True,
        "taxonomy": "t",
    }
    listed = ['documents=["a", {"id": "1", "text": "b"}]', 'taxonomy=["x"]', "unknown=1"]
    assert read_arguments(SCHEMA, listed, '{"top_k": 1}', io.StringIO()) == {
        "documents": ["a", {"id": "1", "text": "b"}],
        "taxonomy": ["x"],
        "unknown": "1",
        "top_k": 1,
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["top_k=many"], "this argument is integer"),
        (["documents=[1"], "is an array"),
        (["query=a", "query=b"], "given twice"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(words, reason):
    with pytest.raises(SettingError, match=reason):
        read_arguments(SCHEMA, words, "", io.StringIO())


def test_a_text_cannot_steer_the_terminal():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    print_answer(
        console,
        {"model": "m\x1b[2J", "labels": ["a", "b"], "rows": [{"text": "\x1b]0;x\x07[red]"}, [1]]},
    )
    text = out.getvalue()
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert "[red]" in text
    assert "a, b" in text


def test_a_long_table_is_cut_on_a_terminal():
    out = io.StringIO()
    print_answer(Console(file=out, width=80), {"rows": [{"n": n} for n in range(250)]})
    assert "... and 50 more" in out.getvalue()
