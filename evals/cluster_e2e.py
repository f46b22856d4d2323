"""A cluster of processes in trouble: requests that fail, models that are loaded, a cold start.

Run `python -m evals.cluster_e2e`. A gateway and six workers with twelve small models, each a
process of its own on 127.0.0.x; between them stretches of network that can be cut. Failures and
loads mean the same on any machine; times only on one that does nothing else.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2

from evals.quality import RESULTS
from tests.cluster.conftest import until
from tests.cluster.network import Cable, cables
from tests.cluster.processes import NUM_MODELS, NUM_WORKERS, Fleet, Traffic

SCALER_POLL_S = 0.25
MAX_OVERHEAD_S = 1.0
Trouble = Callable[[Fleet, list[Cable], httpx2.AsyncClient], Awaitable[None]]


def main() -> None:
    """Measure, print, and write both results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=600)
    given = parser.parse_args()
    figures = asyncio.run(measure(given.requests))
    figures["command"] = " ".join(["python -m evals.cluster_e2e", *sys.argv[1:]])
    (RESULTS / "cluster_e2e.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = report(figures)
    (RESULTS / "cluster_e2e.md").write_text(text)
    print(text)


async def measure(requests: int) -> dict[str, object]:
    """Run every trouble in one cluster, then a cold start in another."""
    rows = []
    async with _running() as (fleet, laid, http):
        for name, trouble in TROUBLES.items():
            await fleet.whole(http)
            rows.append({"trouble": name, **await _under(fleet, laid, http, trouble, requests)})
            if not rows[1:]:
                rows[0]["loads"] = await fleet.num_loads()
    return {
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "workers": NUM_WORKERS,
        "models": NUM_MODELS,
        "rows": rows,
        "cold_start": await _cold_start(),
    }


def report(figures: dict[str, object]) -> str:
    """Say it in a page."""
    rows, cold = figures["rows"], figures["cold_start"]
    assert isinstance(rows, list)
    assert isinstance(cold, dict)
    lines = [
        "# A cluster in trouble\n",
        f"`{figures['command']}`; {figures['workers']} workers, {figures['models']} models, by "
        f"Zipf's law; {figures['cores']} cores at a load average of "
        f"{figures['load_average']:.1f}.\n",
        "| trouble | requests | failed | slowest s |",
        "| --- | --- | --- | --- |",
        *(
            f"| {one['trouble']} | {one['requests']} | {one['failed']} | {one['slowest_s']:.1f} |"
            for one in rows
        ),
        "",
        "A request whose connection breaks twice while a worker runs it is taken for the reason, "
        "and not tried a third time: the last row may have a few.\n",
        f"Loads under steady traffic: {rows[0]['loads']} of {figures['models']} models "
        f"(target ≤ {1.2 * NUM_MODELS:.1f}).\n",
        f"Cold start, from no worker to the first answer: {cold['total_s']:.2f} s, of which the "
        f"scaler's look {cold['noticed_s']:.2f} s (it looks every {SCALER_POLL_S} s), the worker's "
        f"start {cold['start_s']:.2f} s, the load {cold['load_s']:.2f} s, and all else "
        f"{cold['overhead_s']:.2f} s (target ≤ {MAX_OVERHEAD_S:.0f} s).",
    ]
    return "\n".join(lines) + "\n"


async def _nothing(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    """Leave them alone."""


async def _kill(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    for one in fleet.workers[:2]:
        one.send(signal.SIGKILL)
    await fleet.sees(http, NUM_WORKERS - 2)


async def _join(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    await _kill(fleet, laid, http)
    fleet.start(fleet.workers[0])
    await fleet.sees(http, NUM_WORKERS - 1)


async def _drain(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    fleet.workers[2].send(signal.SIGTERM)
    await until(lambda: not fleet.workers[2].is_there)


async def _stand_still(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    """Stop a worker for longer than a gateway waits for a silent one."""
    fleet.workers[3].send(signal.SIGSTOP)
    try:
        await fleet.sees(http, NUM_WORKERS - 1)
        await anyio.sleep(12)
    finally:
        fleet.workers[3].send(signal.SIGCONT)


async def _cut(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    """Cut the way to a worker, connections open, for as long."""
    laid[4].cut()
    try:
        await fleet.sees(http, NUM_WORKERS - 1)
        await anyio.sleep(12)
    finally:
        laid[4].mend()


async def _drop(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    """Break all connections, of all workers."""
    for cable in laid:
        cable.drop()


async def _drop_thrice(fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient) -> None:
    for _ in range(3):
        await _drop(fleet, laid, http)
        await anyio.sleep(0.5)


TROUBLES: dict[str, Trouble] = {
    "none": _nothing,
    "two are killed": _kill,
    "two are killed, one comes back": _join,
    "one leaves in order": _drain,
    "one stands still for 12 s": _stand_still,
    "the network to one is cut for 12 s": _cut,
    "all connections break": _drop,
    "all connections break, three times in 1.5 s": _drop_thrice,
}


async def _under(
    fleet: Fleet, laid: list[Cable], http: httpx2.AsyncClient, trouble: Trouble, requests: int
) -> dict[str, object]:
    """Have a trouble in the middle of traffic."""
    found = Traffic()
    async with anyio.create_task_group() as group:
        group.start_soon(fleet.traffic, http, found, requests)
        await until(lambda: found.num_answers >= requests // 4)
        await trouble(fleet, laid, http)
    for failure in found.failures[:5]:
        print(failure, file=sys.stderr)
    return {
        "requests": found.num_answers,
        "failed": len(found.failures),
        "slowest_s": found.slowest_s,
    }


async def _cold_start() -> dict[str, float]:
    """Ask a gateway without workers, and start one when it says that one is wanted."""
    with tempfile.TemporaryDirectory() as name, Fleet(Path(name), num_awake=0) as fleet:
        async with httpx2.AsyncClient(base_url=fleet.url, timeout=120) as http:
            await fleet.sees(http, 0, 90.0)
            found, times = Traffic(), {"begun": time.monotonic()}
            async with anyio.create_task_group() as group:
                group.start_soon(fleet.traffic, http, found, 1)
                await _scale(fleet, http, times)
            total_s = time.monotonic() - times["begun"]
            assert not found.failures, found.failures
            async with httpx2.AsyncClient(base_url=fleet.workers[0].url) as worker:
                text = (await worker.get("/metrics")).text
    [load] = [one for one in text.splitlines() if one.startswith("sie_model_load_seconds_sum")]
    parts = {
        "noticed_s": times["noticed"] - times["begun"],
        "start_s": times["ready"] - times["noticed"],
        "load_s": float(load.split()[1]),
    }
    return {"total_s": total_s, **parts, "overhead_s": total_s - sum(parts.values())}


async def _scale(fleet: Fleet, http: httpx2.AsyncClient, times: dict[str, float]) -> None:
    """Do what KEDA does: look, start, and wait until the worker is ready."""
    while not (await http.get("/internal/scale")).json()["pools"]["default"]:
        await anyio.sleep(SCALER_POLL_S)
    times["noticed"] = time.monotonic()
    fleet.start(fleet.workers[0])
    async with httpx2.AsyncClient(base_url=fleet.workers[0].url) as worker:
        while True:
            try:
                if (await worker.get("/readyz")).status_code == 200:
                    break
            except httpx2.TransportError:
                await anyio.sleep(0.01)
    times["ready"] = time.monotonic()


@asynccontextmanager
async def _running() -> AsyncIterator[tuple[Fleet, list[Cable], httpx2.AsyncClient]]:
    """Run a cluster whose gateway reaches its workers by cables."""
    with tempfile.TemporaryDirectory() as name:
        fleet = Fleet(Path(name))
        async with cables(*(one.url for one in fleet.workers)) as laid:
            fleet.urls = [one.url for one in laid]
            with fleet:
                async with httpx2.AsyncClient(base_url=fleet.url, timeout=120) as http:
                    yield fleet, laid, http


if __name__ == "__main__":
    main()
