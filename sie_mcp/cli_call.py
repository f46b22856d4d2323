"""`sie-mcp call TOOL`: one tool call from a shell, through the server that agents talk to.

Tables and a bar on a terminal; the answer as JSON in a pipe.
Exit codes: 0 done, 1 the tool said no, 2 a flag or setting that cannot be right.
"""

import json
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CallToolResult, Tool
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sie_mcp.cli_answer import print_answer, print_table, printable
from sie_mcp.cli_arguments import read_arguments
from sie_mcp.config import Config, load_config
from sie_mcp.errors import SettingError
from sie_mcp.gateway.endpoint import choose_endpoint, kept_up, make_client
from sie_mcp.gateway.server import build_server


def call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool; see --list.")] = "",
    arg: Annotated[
        list[str] | None,
        typer.Option(help="name=value; repeat for more, and for each text of a list."),
    ] = None,
    text: Annotated[
        str, typer.Option("--json", help="All arguments as a JSON object; - reads stdin.")
    ] = "",
    is_list: Annotated[
        bool, typer.Option("--list", help="Show the tools, or the arguments of TOOL.")
    ] = False,
    allow: Annotated[
        list[Path] | None, typer.Option(help="Folder that the tool may use; repeat for more.")
    ] = None,
    worker_url: Annotated[
        str | None, typer.Option(help="Use this worker instead of starting a local one.")
    ] = None,
) -> None:
    """Run one tool: sie-mcp call rerank --arg query=... --arg documents=one --arg documents=two."""
    try:
        config = load_config(allow=tuple(allow) if allow else None, worker_url=worker_url)
        if "tools" not in config.model_fields_set:
            # Nobody pays here for tools that are only listed, as an agent does.
            config = config.model_copy(update={"tools": ("all",)})
        _quiet(config)
        code = anyio.run(_run, config, tool, arg or [], text, is_list)
    except SettingError as error:
        typer.echo(f"sie-mcp: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(code)


def _quiet(config: Config) -> None:
    """Log what is wrong alone, unless more was asked for: stderr is for the bar."""
    is_asked = "log_level" in config.model_fields_set
    logging.basicConfig(stream=sys.stderr, level=config.log_level if is_asked else "WARNING")


async def _run(config: Config, name: str, words: list[str], text: str, is_list: bool) -> int:
    async with _session(config) as client:
        try:
            return await _run_in(client, config, name, words, text, is_list)
        except SettingError as error:
            failure = error  # Raised inside the session it would come out wrapped.
    raise failure


async def _run_in(
    client: Client, config: Config, name: str, words: list[str], text: str, is_list: bool
) -> int:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    if is_list and not name:
        _show_tools(list(tools.values()))
        return 0
    if name not in tools:
        raise SettingError(f"no tool {name!r}; there are: {', '.join(tools)}")
    if is_list:
        _show_arguments(tools[name])
        return 0
    arguments = read_arguments(tools[name].input_schema, words, text, sys.stdin)
    with _Bar(name) as report:
        result = await _answer(client, config, name, arguments, report)
    return _show(result)  # Not before the bar is gone: both may be on one terminal.


@asynccontextmanager
async def _session(config: Config) -> AsyncIterator[Client]:
    """Talk to the server of the stdio and HTTP programs, in this process."""
    endpoint = choose_endpoint(config)
    engine = make_client(endpoint, config)
    try:
        async with (
            kept_up(endpoint),
            Client(build_server(engine, config, files_allowed=True)) as client,
        ):
            yield client
    finally:
        await engine.aclose()


async def _answer(
    client: Client, config: Config, name: str, arguments: dict[str, Any], report: ProgressFnT
) -> CallToolResult:
    """Call; while the model loads, call again as an agent would."""
    limit_s = time.monotonic() + config.tool_timeout_with_progress_s
    while True:
        result = await client.call_tool(name, arguments, progress_callback=report)
        body = result.structured_content or {}
        if not (result.is_error and body.get("status") == "loading"):
            return result
        wait_s = float(body["retry_after_s"])
        if time.monotonic() + wait_s > limit_s:
            return result
        await anyio.sleep(wait_s)


class _Bar:
    """Shows how far a call is, on a terminal; stays silent in a pipe."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._bars = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bars.add_task(name, total=None)

    def __enter__(self) -> ProgressFnT:
        self._bars.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    async def _report(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        description = printable(message) if message else None
        self._bars.update(self._task, completed=progress, total=total, description=description)


def _show(result: CallToolResult) -> int:
    text = "\n".join(block.text for block in result.content if block.type == "text")
    console = Console()
    if result.is_error:
        typer.echo(f"sie-mcp: {printable(text) if console.is_terminal else text}", err=True)
        return 1
    if console.is_terminal and isinstance(result.structured_content, dict):
        print_answer(console, result.structured_content)
    else:
        typer.echo(printable(text) if console.is_terminal else text)
    return 0


def _show_tools(tools: list[Tool]) -> None:
    console = Console()
    if not console.is_terminal:
        listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        typer.echo(json.dumps(listed, ensure_ascii=False))
        return
    rows = [
        {"tool": tool.name, "what": tool.title or "", "arguments": list(_properties(tool))}
        for tool in tools
    ]
    print_table(console, "", rows)
    console.print("\nsie-mcp call TOOL --list shows what the arguments are", style="dim")


def _show_arguments(tool: Tool) -> None:
    console = Console()
    if not console.is_terminal:
        typer.echo(json.dumps(tool.input_schema, ensure_ascii=False))
        return
    console.print(printable(tool.description or ""), markup=False, highlight=False)
    required = tool.input_schema.get("required", [])
    rows = [
        {
            "argument": name,
            "needed": "yes" if name in required else "",
            "default": schema.get("default", ""),
            "what": schema.get("description", ""),
        }
        for name, schema in _properties(tool).items()
    ]
    print_table(console, "", rows)


def _properties(tool: Tool) -> dict[str, Any]:
    return dict(tool.input_schema.get("properties", {}))
