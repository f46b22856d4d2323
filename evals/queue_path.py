"""What the broker costs: the same requests by JetStream and directly, by turns, in one run.

Run `python -m evals.queue_path`. Broker, gateway and worker are processes of their own; callers are
in this one. On a busy machine only the ratios mean something.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from evals.quality import RESULTS
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.config import load_config
from tests.e2e.conftest import environment, serving
from tests.nats_servers import NatsServer

MODEL = "potion-base-8M"
TEXT = "The quick brown fox jumps over the lazy dog, and nobody sees it but number {}."
WAYS = ("direct", "queue")
HEADERS = {"Content-Type": MSGPACK, "Accept": MSGPACK}
READY_S = 60.0


def main() -> None:
    """Measure, print, and write both results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--items", type=int, nargs="+", default=[1, 16])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, _running(Path(name)) as url:
        rows = asyncio.run(measure(url, given))
    figures = {
        "command": " ".join(["python -m evals.queue_path", *sys.argv[1:]]),
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "model": MODEL,
        "clients": given.clients,
        "rows": rows,
    }
    (RESULTS / "queue_path.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = report(figures)
    (RESULTS / "queue_path.md").write_text(text)
    print(text)


async def measure(url: str, given: argparse.Namespace) -> list[dict[str, object]]:
    """Run every size by both ways in turn; return medians over rounds."""
    limits = httpx2.Limits(max_connections=given.clients)
    rows = []
    async with httpx2.AsyncClient(base_url=url, timeout=300, limits=limits) as http:
        await _until_the_broker_is_known(http)
        for items in given.items:
            found: dict[str, list[tuple[float, list[float]]]] = {way: [] for way in WAYS}
            for number in range(given.rounds + 1):
                for way in WAYS:
                    one = await _round(http, way, items, given.requests, given.clients)
                    if number:  # The first warms both.
                        found[way].append(one)
            rows += [_row(way, items, given.requests, found[way]) for way in WAYS]
    return rows


def report(figures: dict[str, object]) -> str:
    """Say it in a page."""
    rows = figures["rows"]
    assert isinstance(rows, list)
    lines = [
        "# What the broker costs\n",
        f"`{figures['command']}`; {MODEL}, {figures['clients']} clients; medians, by turns in one "
        f"run; {figures['cores']} cores at a load average of {figures['load_average']:.1f}. Where "
        "that is over the number of cores, the machine was busy with other work, and only ratios "
        "mean something.\n",
        "| way | items a request | requests | failed | items a second | p50 ms | p99 ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one['way']} | {one['items']} | {one['requests']} | {one['failed']} "
        f"| {one['items_per_s']:.0f} | {one['p50_ms']:.1f} | {one['p99_ms']:.1f} |"
        for one in rows
    ]
    lines += ["", "| items a request | by the broker ÷ direct |", "| --- | --- |"]
    lines += [
        f"| {direct['items']} | {queued['items_per_s'] / direct['items_per_s']:.2f} |"
        for direct, queued in zip(rows[::2], rows[1::2], strict=True)
    ]
    return "\n".join(lines) + "\n"


async def _round(
    http: httpx2.AsyncClient, way: str, items: int, requests: int, clients: int
) -> tuple[float, list[float]]:
    """Return seconds, and milliseconds of each request; infinite where it failed."""
    todo = iter(range(requests))
    times: list[float] = []

    async def client() -> None:
        for number in todo:
            texts = [{"text": TEXT.format(number + place)} for place in range(items)]
            begun_s = time.perf_counter()
            answer = await http.post(
                f"/v1/encode/{MODEL}",
                content=encode_body({"items": texts}, MSGPACK),
                headers=HEADERS | {"X-SIE-Transport": way},
            )
            taken_ms = (time.perf_counter() - begun_s) * 1e3
            times.append(taken_ms if answer.status_code == 200 else float("inf"))

    begun_s = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - begun_s, times


def _row(
    way: str, items: int, requests: int, rounds: list[tuple[float, list[float]]]
) -> dict[str, object]:
    good = sorted(one for _, times in rounds for one in times if one != float("inf"))
    total = sum(len(times) for _, times in rounds)
    return {
        "way": way,
        "items": items,
        "requests": total,
        "failed": total - len(good),
        "items_per_s": statistics.median(items * requests / seconds for seconds, _ in rounds),
        "p50_ms": good[len(good) // 2],
        "p99_ms": good[int(len(good) * 0.99)],
    }


@contextmanager
def _running(folder: Path) -> Iterator[str]:
    """Run broker, worker and gateway; yield the gateway's URL."""
    server = NatsServer(folder / "nats")
    server.start()
    own = environment(folder, cache_dir=str(load_config().cache_dir), queue_uri=server.uri)
    own |= {"SIE_MCP_ALLOW_MODEL_CONTROL": "true", "SIE_MCP_QUEUE_FOR": "asked"}
    program = [sys.executable, "-m", "sie_mcp"]
    try:
        with serving([*program, "worker"], own, folder / "worker.log") as (worker, _):
            front = own | {"SIE_MCP_WORKERS": worker}
            with serving([*program, "serve"], front, folder / "gateway.log") as (url, _):
                yield url
    finally:
        server.kill()


async def _until_the_broker_is_known(http: httpx2.AsyncClient) -> None:
    """Wait until a request by the broker is answered, which loads the model too."""
    limit_s = time.monotonic() + READY_S
    while time.monotonic() < limit_s:
        _, times = await _round(http, "queue", 1, 1, 1)
        if times[0] != float("inf"):
            return
        await asyncio.sleep(0.2)
    raise SystemExit(f"the broker did not answer within {READY_S:.0f} s; is {MODEL} here?")


if __name__ == "__main__":
    main()
