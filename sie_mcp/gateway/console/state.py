"""What the console shows one caller, of what is there. Pure.

A caller sees no model that it may not use, and figures of all callers only if it may move models.
"""

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Sequence

import pydantic
from prometheus_client import Counter

import sie_mcp
from sie_mcp import metrics
from sie_mcp.access.principal import CONTROL, Principal
from sie_mcp.gateway.console.looks import SeenPool, SeenWorker
from sie_mcp.gateway.pool.watch import LORA_MARK
from sie_mcp.wire_memory import DeviceMemory, HostMemory, ModelMemory

# What a page can show; how many more there are is said.
MAX_WORKERS = 64
MAX_MODELS = 64
MAX_COLD = 500


class ModelState(pydantic.BaseModel):
    """A model on a device (`loading`, `loaded`) or beside it (`host`)."""

    name: str
    state: str
    size_bytes: int
    users: int = 0
    pinned: bool = False
    unused_s: float = 0.0


class DeviceState(pydantic.BaseModel):
    """A device; `others` counts models that are not shown."""

    device: str
    budget_bytes: int
    reserved_bytes: int
    resident_bytes: int
    queue_tokens: int
    host_budget_bytes: int = 0
    host_bytes: int = 0
    models: list[ModelState] = []
    others: int = 0


class WorkerState(pydantic.BaseModel):
    """A worker; `address` is for those who may move models."""

    name: str
    address: str | None
    is_ready: bool
    devices: list[DeviceState] = []


class PoolState(pydantic.BaseModel):
    """A pool; `waiting` and `running` are requests of this gateway."""

    name: str
    waiting: int | None
    running: int | None
    workers: list[WorkerState] = []
    others: int = 0


class Figures(pydantic.BaseModel):
    """Tool calls of all callers of this gateway since its start, and what they ran."""

    calls: int
    failed: int
    items: int
    tokens: int


class ConsoleState(pydantic.BaseModel):
    """Answer of `GET /console/state`."""

    version: str
    pools: list[PoolState]
    cold: list[str]
    others: int = 0
    figures: Figures | None = None


def describe(
    pools: Iterable[SeenPool], known: Sequence[str], caller: Principal, *, has_figures: bool
) -> ConsoleState:
    """Say what there is to one caller.

    Args:
        pools: What was seen.
        known: Names of models of the catalogue.
        caller: Who asks.
        has_figures: Whether figures of this gateway may be read at all.
    """
    seen = list(pools)
    there = {
        name.partition(LORA_MARK)[0]
        for pool in seen
        for worker in pool.workers
        for name in _names(worker)
    }
    cold = [name for name in known if name not in there and caller.may_use(name)]
    may_see_all = CONTROL in caller.scopes
    return ConsoleState(
        version=sie_mcp.__version__,
        pools=[_pool(one, caller) for one in seen],
        cold=cold[:MAX_COLD],
        others=len(cold[MAX_COLD:]),
        figures=figures() if has_figures and may_see_all else None,
    )


def figures() -> Figures:
    """Return the figures of this gateway."""
    calls: Counts[str] = Counts()
    for labels, value in _samples(metrics.TOOL_CALLS):
        calls[labels["outcome"]] += int(value)
    return Figures(
        calls=sum(calls.values()),
        failed=calls["error"],
        items=int(sum(value for _, value in _samples(metrics.TOOL_ITEMS))),
        tokens=int(sum(value for _, value in _samples(metrics.TOOL_TOKENS))),
    )


def _samples(counter: Counter) -> Iterator[tuple[dict[str, str], float]]:
    for metric in counter.collect():
        for one in metric.samples:
            if one.name.endswith("_total"):
                yield one.labels, one.value


def _pool(pool: SeenPool, caller: Principal) -> PoolState:
    shown = pool.workers[:MAX_WORKERS]
    return PoolState(
        name=pool.name,
        waiting=pool.waiting,
        running=pool.running,
        workers=[_worker(one, number, caller) for number, one in enumerate(shown, start=1)],
        others=len(pool.workers) - len(shown),
    )


def _worker(worker: SeenWorker, number: int, caller: Principal) -> WorkerState:
    devices = worker.account.devices if worker.account is not None else []
    return WorkerState(
        name=f"worker {number}",
        address=worker.address if CONTROL in caller.scopes else None,
        is_ready=worker.is_ready,
        devices=[_device(one, caller) for one in devices],
    )


def _device(device: DeviceMemory, caller: Principal) -> DeviceState:
    host = device.host or HostMemory(budget_bytes=0, resident_bytes=0)
    on_device = {one.name for one in device.models}
    models = [
        *(_model(one) for one in sorted(device.models, key=lambda one: one.unused_s)),
        *(
            ModelState(name=one.name, state="host", size_bytes=one.size_bytes)
            for one in host.models
            if one.name not in on_device
        ),
    ]
    own = [one for one in models if caller.may_use(one.name.partition(LORA_MARK)[0])]
    return DeviceState(
        device=device.device,
        budget_bytes=device.budget_bytes,
        reserved_bytes=device.reserved_bytes,
        resident_bytes=device.resident_bytes,
        queue_tokens=device.queue_tokens,
        host_budget_bytes=host.budget_bytes,
        host_bytes=host.resident_bytes,
        models=own[:MAX_MODELS],
        others=len(models) - len(own[:MAX_MODELS]),
    )


def _model(model: ModelMemory) -> ModelState:
    return ModelState(
        name=model.name,
        state=model.state,
        size_bytes=model.size_bytes,
        users=model.users,
        pinned=model.pinned,
        unused_s=round(model.unused_s, 1),
    )


def _names(worker: SeenWorker) -> Iterable[str]:
    for device in worker.account.devices if worker.account is not None else []:
        yield from (one.name for one in device.models)
        if device.host is not None:
            yield from (one.name for one in device.host.models)
