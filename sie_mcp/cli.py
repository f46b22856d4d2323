"""Commands: servers here, the others by name. Flags become settings, programs load by name.

A program is imported when its command runs: a gateway must not pay for, or even need, torch.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

import sie_mcp
from sie_mcp import tracing
from sie_mcp.config import Config, load_config
from sie_mcp.errors import SettingError
from sie_mcp.imports_kept import imports_kept
from sie_mcp.log_lines import start_log
from sie_mcp.openmp import wait_shortly

app = typer.Typer(
    name="sie-mcp",
    help="Small models as tools for agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Allow = Annotated[
    list[Path] | None,
    typer.Option(help="Folder that tools may read and write in; repeat for more."),
]
WorkerUrl = Annotated[
    str | None, typer.Option(help="Use this worker instead of starting a local one.")
]
CacheDir = Annotated[Path | None, typer.Option(help="Where downloaded models lie.")]
Tools = Annotated[
    str | None, typer.Option(help="Tools to offer: all, core, or names, with commas between.")
]
LogLevel = Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")]

# Commands that are a module each, with a function of the same name.
_BY_NAME = {
    "install": "Add this server to a client: claude-code, claude-desktop, cursor, vscode, codex.",
    "doctor": "Check this installation; each finding comes with what to do.",
    "call": "Run one tool from a shell.",
    "key": "Make a key for callers over HTTP.",
}

_MISSING_PICKER = "the endpoint picker is not installed here; run: pip install 'sie-mcp[picker]'"
_MISSING_ENGINE = "the engine is not installed here; run: pip install 'sie-mcp[engine]'"


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Small models as tools for agents."""
    if version:
        typer.echo(sie_mcp.__version__)
        raise typer.Exit


@app.command()
def stdio(
    allow: Allow = None,
    tools: Tools = None,
    worker_url: WorkerUrl = None,
    cache_dir: CacheDir = None,
    log_level: LogLevel = None,
) -> None:
    """Serve MCP over stdin and stdout: what a client's configuration starts."""
    stdout = _claim_stdout()
    config = _config(
        allow=tuple(allow) if allow else None,
        tools=tools,
        worker_url=worker_url,
        cache_dir=cache_dir,
        log_level=log_level,
    )
    with imports_kept():
        run = importlib.import_module("sie_mcp.gateway.stdio").run
        _trace(config, "sie-mcp-stdio")
    _guarded(run, config, stdout)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    auth: Annotated[str | None, typer.Option(help="none, api-key or oauth.")] = None,
    allow: Allow = None,
    tools: Tools = None,
    worker_url: WorkerUrl = None,
    cache_dir: CacheDir = None,
    log_level: LogLevel = None,
) -> None:
    """Serve MCP over HTTP at /mcp, and /v1 in front of the worker."""
    config = _config(
        host=host,
        port=port,
        auth=auth,
        allow=tuple(allow) if allow else None,
        tools=tools,
        worker_url=worker_url,
        cache_dir=cache_dir,
        log_level=log_level,
    )
    files_allowed = "allow" in config.model_fields_set
    _trace(config, "sie-mcp-gateway")
    with imports_kept():
        run_http = importlib.import_module("sie_mcp.gateway.app").run_http
    _guarded(run_http, config, files_allowed=files_allowed)


@app.command()
def endpoint_picker(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of figures and probes.")] = None,
    picker_port: Annotated[int | None, typer.Option(help="Port where Envoy asks.")] = None,
    log_level: LogLevel = None,
) -> None:
    """Choose workers for a proxy that sends requests itself (Envoy's external processing)."""
    config = _config(host=host, port=port, picker_port=picker_port, log_level=log_level)
    try:
        run_picker = importlib.import_module("sie_mcp.gateway.endpoint_picker.app").run_picker
    except ModuleNotFoundError as error:
        _stop(f"{_MISSING_PICKER} (no module {error.name})")
    _guarded(run_picker, config)


@app.command()
def worker(
    uds: Annotated[str | None, typer.Option(help="Unix socket to listen on.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on with --port.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    cache_dir: CacheDir = None,
    log_level: LogLevel = None,
) -> None:
    """Run the engine alone: an inference server for embeddings, reranking and extraction."""
    if (uds is None) == (port is None):
        _stop("give either --uds PATH or --port N")
    config = _config(cache_dir=cache_dir, log_level=log_level)
    wait_shortly(spins=config.cpu_backend == "torch")
    try:
        with imports_kept():
            importlib.import_module("sie_mcp.engine.torch_parts").import_torch()
            main_module = importlib.import_module("sie_mcp.engine.main")
    except ModuleNotFoundError as error:
        _stop(f"{_MISSING_ENGINE} (no module {error.name})")
    _trace(config, "sie-mcp-worker")
    _guarded(main_module.run_worker, config, uds=uds, host=host, port=port)


def main() -> None:
    """Run the command line."""
    # These need a terminal library and others that servers do not.
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    if named == "models":
        app.add_typer(importlib.import_module("sie_mcp.cli_control").app, name="models")
    else:
        app.add_typer(
            typer.Typer(help="List, fetch, remove, load and unload models."), name="models"
        )
    for name, summary in _BY_NAME.items():
        command: Any = _not_loaded
        if name == named:
            command = vars(importlib.import_module(f"sie_mcp.cli_{name}"))[name]
        app.command(name, help=summary)(command)
    app()


def _not_loaded() -> None:
    """Stand in a list of commands for one that is not wanted now."""


def _config(**flags: Any) -> Config:
    try:
        config = load_config(**flags)
    except SettingError as error:
        _stop(str(error))
    start_log(config.log_level)
    return config


def _trace(config: Config, service: str) -> None:
    try:
        tracing.start_tracing(service, config.tracing, is_wanted=config.wants_traces)
    except SettingError as error:
        _stop(str(error))


def _guarded(function: Any, *args: Any, **options: Any) -> None:
    """Run a program; a setting it cannot honour ends it with one line."""
    try:
        function(*args, **options)
    except SettingError as error:
        _stop(str(error))


def _stop(message: str) -> Any:
    typer.echo(f"sie-mcp: {message}", err=True)
    raise typer.Exit(2)


def _claim_stdout() -> TextIO:
    """Keep stdout for the protocol: what else prints from now on, even at exit, goes to stderr."""
    wire = os.dup(1)
    os.dup2(2, 1)
    # Quieter still: no progress bars, whatever a library would like to show.
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return os.fdopen(wire, "w", encoding="utf-8", newline="\n")
