"""`sie-mcp models load | unload | pin | unpin | memory`: the models of a worker that runs.

The worker at `worker_url`, else this user's local one with the same settings; only `load` starts
one.
Exit codes: 0 done, 1 refused or failed, 2 a setting that cannot be right.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from sie_mcp import wire
from sie_mcp.cli_listing import print_cells
from sie_mcp.cli_models import app, errors_shown
from sie_mcp.cli_progress import megabytes
from sie_mcp.client import EngineClient
from sie_mcp.config import load_config
from sie_mcp.connection import ANYTHING, Address, Endpoint, FixedEndpoint, OneWorker, Want
from sie_mcp.errors import WorkerUnavailable
from sie_mcp.gateway.supervisor import LocalWorker
from sie_mcp.wire_memory import (
    DeviceMemory,
    LoadRequest,
    MemoryAccount,
    ModelMemory,
    UnloadRequest,
    UnloadTier,
)

ResultT = TypeVar("ResultT")

LOAD_WAIT_S = 600.0
COLUMNS = (
    "device", "model", "state", "size", "users", "pinned", "unused", "load", "loads", "evictions",
    "requests/load",
)  # fmt: skip

Name = Annotated[str, typer.Argument(help="A catalogue name, hub id or folder.")]
WorkerUrl = Annotated[str | None, typer.Option(help="Another worker than the local one.")]


@app.command()
def load(
    name: Name,
    pin: Annotated[bool, typer.Option("--pin", help="Keep it until it is unpinned.")] = False,
    wait_s: Annotated[float, typer.Option(help="0: come back at once.")] = LOAD_WAIT_S,
    worker_url: WorkerUrl = None,
) -> None:
    """Bring a model up before its first request; starts the local worker if none runs."""
    body = LoadRequest(wait_s=wait_s, pin=pin)
    _say(
        _call(lambda client: client.load(name, body), worker_url, starts_worker=True, wait_s=wait_s)
    )


@app.command()
def unload(
    name: Name,
    wait_s: Annotated[float, typer.Option(help="Wait so long for requests that use it.")] = 0.0,
    tier: Annotated[
        UnloadTier, typer.Option(help="host: it stays in host memory; all: nowhere.")
    ] = "host",
    worker_url: WorkerUrl = None,
) -> None:
    """Take a model, and its pin, off the device."""
    body = UnloadRequest(wait_s=wait_s, tier=tier)
    _show(_call(lambda client: client.unload(name, body), worker_url, wait_s=wait_s))


@app.command()
def pin(name: Name, worker_url: WorkerUrl = None) -> None:
    """Keep a model that is up on its device."""
    _say(_call(lambda client: client.pin(name), worker_url))


@app.command()
def unpin(name: Name, worker_url: WorkerUrl = None) -> None:
    """Let a model leave again when there is need."""
    _show(_call(lambda client: client.unpin(name), worker_url))


@app.command()
def memory(
    is_json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
    worker_url: WorkerUrl = None,
) -> None:
    """Show what is on each device, and what loading it bought."""
    account = _call(lambda client: client.memory(), worker_url)
    if is_json:
        typer.echo(account.model_dump_json(indent=1))
    else:
        _show(account)


class _RunningWorker(OneWorker):
    """The local worker if one runs; starts none."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return its address.

        Raises:
            WorkerUnavailable: none runs.
        """
        address = await self._worker.find()
        if address is None:
            raise WorkerUnavailable(
                "no local worker runs with these settings; `sie-mcp models load NAME` starts one"
            )
        return address


def _call(
    work: Callable[[EngineClient], Awaitable[ResultT]],
    worker_url: str | None,
    *,
    starts_worker: bool = False,
    wait_s: float = 0.0,
) -> ResultT:
    """Do one thing with a client of the worker."""

    async def run() -> ResultT:
        endpoint: Endpoint
        if config.worker_url is not None:
            endpoint = FixedEndpoint(config.worker_url)
        else:
            worker = LocalWorker(config)
            endpoint = worker if starts_worker else _RunningWorker(worker)
        client = EngineClient(
            endpoint,
            load_wait_s=config.worker_start_timeout_s,
            timeout_s=config.request_timeout_s + wait_s,
        )
        try:
            return await work(client)
        finally:
            await client.aclose()

    with errors_shown():
        config = load_config(worker_url=worker_url)
        return asyncio.run(run())
    raise AssertionError("the block above returns or exits")


def _say(card: wire.ModelCard) -> None:
    places = ", ".join(
        f"{one.device} ({megabytes(one.size_bytes)}{', pinned' if one.pinned else ''})"
        for one in card.residents
    )
    typer.echo(f"{card.name}: {card.state}{' on ' + places if places else ''}")


def _show(account: MemoryAccount) -> None:
    groups = [[_row(device.device, one) for one in device.models] for device in account.devices]
    print_cells(*groups, columns=COLUMNS)
    for device in account.devices:
        typer.echo(_summary(device))


def _row(device: str, model: ModelMemory) -> dict[str, str]:
    cells = (
        device,
        model.name,
        model.state,
        megabytes(model.size_bytes),
        str(model.users),
        "yes" if model.pinned else "no",
        f"{model.unused_s:.0f} s",
        f"{model.load_s:.2f} s",
        str(model.thrash.loads),
        str(model.thrash.evictions),
        f"{model.thrash.requests_per_load:.1f}",
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _summary(device: DeviceMemory) -> str:
    thrash = device.thrash
    return (
        f"{device.device}: {megabytes(device.resident_bytes)} of models and "
        f"{megabytes(device.reserved_bytes)} reserved of {megabytes(device.budget_bytes)}; "
        f"{thrash.loads_per_minute:.0f} loads in the last minute, "
        f"{thrash.short_stays} of {thrash.evictions} evictions after less work than the load took"
    )
