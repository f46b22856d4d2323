"""What HTTP costs: a gateway and a worker beside the engine in this process, and beside an echo.

Run `python -m evals.http_path`. All figures of one run stand side by side; on a busy machine only
the ratios mean something.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import psutil
import torch

from evals.bench.cpu import encode, workloads
from evals.quality import RESULTS
from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.catalogue.fetch import find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.config import load_config
from sie_mcp.errors import ModelNotFound
from tests.e2e.conftest import environment, serving

MODEL, SMALL = "all-MiniLM-L6-v2", "potion-base-8M"
BATCH, BATCHES = 64, 8
TARGET_SHARE, TARGET_OVERHEAD_MS = 0.90, 2.0
# Clocks of processes tick every 10 ms: a block takes many.
CPU_BLOCKS, CPU_REQUESTS = 5, 60
HEADERS = {"Content-Type": MSGPACK, "Accept": MSGPACK}
SERVE = [sys.executable, "-m", "sie_mcp", "serve"]
WORKER = [sys.executable, "-m", "sie_mcp", "worker"]
ECHO = [sys.executable, "-m", "evals.http_echo"]


def main() -> None:
    """Measure, print, and write both results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    figures = measure(given.rounds, given.requests)
    figures["command"] = " ".join(["python -m evals.http_path", *sys.argv[1:]])
    (RESULTS / "http_path.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = report(figures)
    (RESULTS / "http_path.md").write_text(text)
    print(text)


def measure(rounds: int, requests: int) -> dict[str, object]:
    """Run everything in turn; texts a second and milliseconds."""
    texts = workloads()["1,000 queries"]
    batches = [texts[at : at + BATCH] for at in range(0, BATCHES * BATCH, BATCH)]
    adapters = {name: _adapter(name) for name in (MODEL, SMALL)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = environment(folder, cache_dir=str(load_config().cache_dir))
        with (
            serving(WORKER, own, folder / "worker.log") as (worker, worker_process),
            serving(ECHO, own, folder / "echo.log") as (echo, _),
            serving(SERVE, own | {"SIE_MCP_WORKER_URL": worker}, folder / "gateway.log") as (
                url,
                gateway_process,
            ),
            httpx2.Client(timeout=300) as http,
        ):
            rows = _throughput(rounds, batches, adapters[MODEL], http, url)
            small = _small(
                requests, adapters[SMALL], http, {"gateway": url, "worker": worker}, echo
            )
            small |= _processor_ms(
                http, url, {"gateway": gateway_process.pid, "worker": worker_process.pid}
            )
    return {"load_average": os.getloadavg()[0], "cores": os.cpu_count(), **rows, **small}


def report(figures: dict[str, object]) -> str:
    """Say it in a page."""
    rows = [
        (
            f"{MODEL}, batches of {BATCH} short texts, by HTTP ÷ in this process",
            f"{figures['share']:.2f}",
            f"≥ {TARGET_SHARE:.2f}",
        ),
        ("texts a second in this process", f"{figures['in_process_texts_per_s']:.0f}", ""),
        ("texts a second by HTTP", f"{figures['http_texts_per_s']:.0f}", ""),
        (f"one small request ({SMALL}) in this process", f"{figures['engine_ms']:.2f} ms", ""),
        ("the same, to the worker", f"{figures['worker_ms']:.2f} ms", ""),
        ("the same, to the gateway before it", f"{figures['gateway_ms']:.2f} ms", ""),
        ("a raw Starlette echo of its body", f"{figures['echo_ms']:.2f} ms", ""),
        (
            "gateway and worker over the model's own time",
            f"{figures['overhead_ms']:.2f} ms",
            f"≤ {TARGET_OVERHEAD_MS:.0f} ms",
        ),
        ("the same, in echoes", f"{figures['overhead_echoes']:.1f}", ""),
        ("processor time of it in the worker", f"{figures['worker_cpu_ms']:.2f} ms", ""),
        ("processor time of it in the gateway", f"{figures['gateway_cpu_ms']:.2f} ms", ""),
    ]
    lines = [
        "# What HTTP costs",
        "",
        f"`{figures['command']}`; medians, all by turns in one run; {figures['cores']} cores at a "
        f"load average of {figures['load_average']:.1f}. Where that is over the number of cores, "
        "the machine was busy with other work, and only ratios mean something.",
        "",
        "| figure | value | target |",
        "| --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _throughput(
    rounds: int, batches: list[list[str]], adapter: Adapter, http: httpx2.Client, url: str
) -> dict[str, float]:
    bodies = [_body(batch) for batch in batches]
    _post(http, url, MODEL, bodies[0])
    encode(adapter, batches[0])
    own_s, http_s = [], []
    for _ in range(rounds):
        for batch, body in zip(batches, bodies, strict=True):
            own_s.append(_timed(lambda batch=batch: encode(adapter, batch)))
            http_s.append(_timed(lambda body=body: _post(http, url, MODEL, body)))
    return {
        "share": statistics.median(own_s) / statistics.median(http_s),
        "in_process_texts_per_s": BATCH / statistics.median(own_s),
        "http_texts_per_s": BATCH / statistics.median(http_s),
    }


def _small(
    requests: int, adapter: Adapter, http: httpx2.Client, urls: dict[str, str], echo: str
) -> dict[str, float]:
    body = _body(["a small request"])
    calls: dict[str, Callable[[], object]] = {
        "engine": lambda: encode(adapter, ["a small request"]),
        "echo": lambda: http.post(f"{echo}/echo", content=body, headers=HEADERS).content,
        "worker": lambda: _post(http, urls["worker"], SMALL, body),
        "gateway": lambda: _post(http, urls["gateway"], SMALL, body),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(requests):
        for name, call in calls.items():
            times[name].append(_timed(call))
    medians = {f"{name}_ms": statistics.median(times[name]) * 1e3 for name in calls}
    overhead_ms = medians["gateway_ms"] - medians["engine_ms"]
    return medians | {
        "overhead_ms": overhead_ms,
        "overhead_echoes": overhead_ms / medians["echo_ms"],
    }


def _processor_ms(http: httpx2.Client, url: str, pids: dict[str, int]) -> dict[str, float]:
    """Return what one small request takes of each process: hardly more on a busy machine."""
    body = _body(["a small request"])
    taken: dict[str, list[float]] = {name: [] for name in pids}
    for _ in range(CPU_BLOCKS):
        before = {name: _processor_s(pid) for name, pid in pids.items()}
        for _ in range(CPU_REQUESTS):
            _post(http, url, SMALL, body)
        for name, pid in pids.items():
            taken[name].append((_processor_s(pid) - before[name]) / CPU_REQUESTS)
    return {f"{name}_cpu_ms": min(found) * 1e3 for name, found in taken.items()}


def _processor_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _adapter(name: str) -> Adapter:
    entry = load_catalogue().find(name)
    folder = find_local(entry, load_config().cache_dir) if entry else None
    if folder is None:
        raise ModelNotFound(f"{name} is not on disk; run `sie-mcp models pull starter`")
    device = torch.device("cpu")
    recipe = create.read_recipe(name, folder, entry)
    return create.load_adapter(recipe, device=device, dtype=torch.float32)


def _body(texts: list[str]) -> bytes:
    return encode_body(wire.EncodeRequest(items=[wire.Item(text=text) for text in texts]), MSGPACK)


def _post(http: httpx2.Client, url: str, model: str, body: bytes) -> bytes:
    answer = http.post(f"{url}/v1/encode/{model}", content=body, headers=HEADERS)
    answer.raise_for_status()
    return answer.content


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
