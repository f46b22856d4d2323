"""Swap: two models on memory for one, asked in turn; from host memory to the first result.

Beside it, on the same device and in the same run: the same bytes from one pinned buffer, which is
the least that it can take, and the file read again out of the page cache, which is what a worker
without a host tier does. A CPU has no second memory: there it is run for what it must not leak.
"""

import asyncio
import dataclasses
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from evals.stress.models import LARGE, Model, Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, quantiles
from evals.stress.worker import Worker, working_with
from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.connection import FixedEndpoint

SWAPS = 500
# What a caller may take from one answer to the next question: a model that was just used may stay
# for a part of its load time, and that is no part of a swap.
PAUSE_S = 0.05
WARM_SWAPS = 4
BARE_ROUNDS = 20
# Room for one of the two.
ROOM = 1.5
MAX_OVER_BARE, MIN_REREAD_MS = 1.5, 100.0
LIMIT_S = 60.0
TEXT = "w1 w2 w3 w4 w5 w6 w7 w8"


async def run(options: Options) -> Report:
    """Swap, then time what it is measured against."""
    swaps = options.requests or (20 if options.tiny else SWAPS)
    shape = LARGE if options.gpu else Shape("small", layers=4, hidden=256, vocabulary=8_000)
    models = [
        make(
            dataclasses.replace(shape, name=name), options.work / name, dtype=options.dtype, seed=n
        )
        for n, name in enumerate(("first", "second"))
    ]
    size_bytes = models[0].size_bytes
    allocated = options.work / "allocated"
    settings = options.worker(max_batch_tokens=1024)
    worker_program = "evals.stress.faulty_worker"
    options_of_it = ("--no-faults", "--allocated", str(allocated))
    command = (sys.executable, "-m", worker_program, *options_of_it)
    usable = int(size_bytes * ROOM)
    async with working_with(usable, options.work, settings, command=command) as worker:
        client = EngineClient(FixedEndpoint(worker.url), load_wait_s=LIMIT_S, timeout_s=LIMIT_S)
        try:
            for turn in range(WARM_SWAPS):
                await _ask(client, models[turn % 2])
            before = await _allocated(worker, allocated)
            loads = await worker.metric("sie_model_loads_total")
            came = await worker.metric("sie_model_swaps_total")
            bare = [] if not options.gpu else _bare(size_bytes)
            found = [await _swap(client, models, turn) for turn in range(swaps)]
            bare += [] if not options.gpu else _bare(size_bytes)
            loads = await worker.metric("sie_model_loads_total") - loads
            came = await worker.metric("sie_model_swaps_total") - came
            after = await _allocated(worker, allocated)
            memory = (await worker.models()).memory
        finally:
            await client.aclose()
    reread = _reread(models[0]) if options.gpu else []
    own = {"swaps": swaps, "model_mb": round(size_bytes / 1e6, 1), "pause_s": PAUSE_S}
    own |= {
        "loads_from_disk": loads,
        "swaps_from_host": came,
        "allocated_bytes": [before, after],
        "memory": memory,
    }
    return _report(own, found, bare, reread, before, after)


async def _swap(client: EngineClient, models: list[Model], turn: int) -> tuple[float, float]:
    """Ask the model that is not there; return seconds within the engine and for the caller."""
    await asyncio.sleep(PAUSE_S)
    started_s = time.perf_counter()
    answer = await _ask(client, models[turn % 2])
    return answer.timing.total_ms / 1000, time.perf_counter() - started_s


async def _ask(client: EngineClient, model: Model) -> wire.EncodeResponse:
    answer = await client.encode(str(model.folder), [wire.Item(text=TEXT)])
    assert answer.items[0].dense is not None, answer.items[0].error
    return answer


async def _allocated(worker: Worker, path: Path) -> int:
    """Have the worker say what torch holds on the device; on a CPU, what its account says."""
    await asyncio.sleep(PAUSE_S)
    path.unlink(missing_ok=True)
    worker.process.send_signal(signal.SIGUSR1)
    async with asyncio.timeout(LIMIT_S):
        while not path.exists():
            await asyncio.sleep(0.01)
    return int(path.read_text()) or (await worker.models()).memory["resident_bytes"]


def _bare(size_bytes: int) -> list[float]:
    """Time one copy of the same bytes from pinned memory to the device."""
    source = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
    return _timed(lambda: target.copy_(source, non_blocking=True), BARE_ROUNDS)


def _reread(model: Model) -> list[float]:
    """Time the file's way from the page cache to the device."""
    path = model.folder / "model.safetensors"
    return _timed(lambda: load_file(path, device="cuda"), BARE_ROUNDS // 2)


def _timed(action: Callable[[], Any], rounds: int) -> list[float]:
    seconds = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        started_s = time.perf_counter()
        action()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started_s)
    return seconds[1:]


def _report(
    settings: dict[str, Any],
    found: list[tuple[float, float]],
    bare: list[float],
    reread: list[float],
    before: int,
    after: int,
) -> Report:
    claimed = Claimed()
    moves = settings["loads_from_disk"] + settings["swaps_from_host"]
    claimed.at_least("times a model came back", moves, settings["swaps"])
    claimed.at_most("bytes more on the device after all swaps", after - before, 0)
    inside = [one for one, _ in found]
    rows = [
        {"what": "swap to first result, in the engine"} | quantiles(inside),
        {"what": "the same, as the caller sees it"} | quantiles(one for _, one in found),
    ]
    if bare:
        rows += [
            {"what": "bare pinned copy"} | quantiles(bare),
            {"what": "file from the page cache"} | quantiles(reread),
        ]
        over = statistics.median(inside) / statistics.median(bare)
        claimed.at_most("loads from disk", settings["loads_from_disk"], 0)
        claimed.at_most(
            "swap to first result over the bare copy", over, MAX_OVER_BARE, is_speed=True
        )
        reread_ms = statistics.median(reread) * 1000
        claimed.at_least("reading the file again, ms", reread_ms, MIN_REREAD_MS, is_speed=True)
    return Report(settings, rows, claimed.claims)
