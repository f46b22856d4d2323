"""32 to 256 callers over HTTP, one short text each: our worker beside other servers.

Every server is a process of its own with the same checkpoint; callers are processes too, the same
for all. Servers take turns. Infinity runs where SIE_BENCH_INFINITY names its program.
"""

import asyncio
import base64
import json
import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import numpy as np

from evals.bench import clock, st_peers
from evals.bench.engines import Asked, min_cosine
from evals.bench.folders import make_folder, of_sizes
from evals.stress.worker import COMMAND, ROOT, working
from sie_mcp import wire
from sie_mcp.codec import JSON, MSGPACK, decode_body, encode_body

CLIENTS = (32, 64, 256)
SECONDS, ROUNDS = 2.0, 3
NUM_TEXTS, NUM_CHECKED = 256, 16
# One process of callers cannot keep up with a server that can.
MOST_PROCESSES = 4
INFINITY = "SIE_BENCH_INFINITY"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and how it is asked."""

    name: str
    url: str
    path: str
    model: str
    speaks: str = JSON

    def body(self, text: str) -> bytes:
        """Return a request for one text."""
        if self.speaks == MSGPACK:
            return encode_body(wire.EncodeRequest(items=[wire.Item(text=text)]), MSGPACK)
        return json.dumps({"model": self.model, "input": [text]}).encode()

    def vector(self, body: bytes) -> np.ndarray:
        """Read an answer."""
        if self.speaks == MSGPACK:
            answer = wire.EncodeResponse.model_validate(decode_body(body, MSGPACK))
            dense = answer.items[0].dense
            assert dense is not None
            return np.asarray(dense.values, np.float32)
        return np.array(json.loads(body)["data"][0]["embedding"], np.float32)


def measure(asked: Asked) -> list[dict[str, Any]]:
    """Return a row for each number of callers and each server."""
    return clock.run(_measure(asked))


async def _measure(asked: Asked) -> list[dict[str, Any]]:
    folder = make_folder(asked.work / "clients", asked.shape, tokenizer=asked.tokenizer)
    rng = np.random.default_rng(5)
    texts = of_sizes(rng.integers(5, 13, NUM_TEXTS).tolist(), rng)
    expected = st_peers.exact(folder, asked.device, texts[:NUM_CHECKED])
    rows = []
    async with AsyncExitStack() as stack:
        servers = await _servers(stack, asked, folder)
        cosines = {one.name: min_cosine(await _vectors(one, texts), expected) for one in servers}
        for num_clients in (4,) if asked.tiny else CLIENTS:
            found: dict[str, list[dict[str, Any]]] = {one.name: [] for one in servers}
            for number in range(1 if asked.tiny else ROUNDS + 1):
                for server in servers:
                    seconds = 0.3 if asked.tiny else SECONDS if number else SECONDS / 3
                    one = await _load(server, texts, num_clients, seconds)
                    if number or asked.tiny:  # The first warms.
                        found[server.name].append(one)
            rows += [
                {
                    "clients": num_clients,
                    "server": name,
                    **_row(rounds),
                    "min_cosine": cosines[name],
                }
                for name, rounds in found.items()
            ]
    return rows


def _row(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of rounds."""

    def middle(part: float) -> float:
        return statistics.median(float(np.quantile(one["times_s"], part)) for one in rounds) * 1e3

    return {
        "texts_s": round(statistics.median(len(one["times_s"]) / one["busy_s"] for one in rounds)),
        "p50_ms": round(middle(0.5), 2),
        "p99_ms": round(middle(0.99), 2),
        "failed": sum(one["failed"] for one in rounds),
        "rounds": len(rounds),
    }


async def _servers(stack: AsyncExitStack, asked: Asked, folder: Path) -> list[Server]:
    """Start all that there are."""
    model = str(folder)

    async def start(command: Sequence[str], probe: str = "/readyz") -> str:
        worker = await stack.enter_async_context(
            working(asked.work, asked.settings(), command=command, probe=probe)
        )
        return worker.url

    ours = await start(COMMAND)
    path = f"/v1/encode/{quote(model, safe='')}"
    servers = [
        Server("ours", ours, path, model, MSGPACK),
        Server("ours, /v1/embeddings", ours, "/v1/embeddings", model),
    ]
    of_all = ["--device", asked.device.type]
    command = [sys.executable, "-m", "evals.bench.st_server", "--folder", model, *of_all]
    servers.append(
        Server("sentence-transformers, Starlette", await start(command), "/v1/embeddings", model)
    )
    if program := os.environ.get(INFINITY):
        command = [program, "v2", "--model-id", model, "--served-model-name", "bench", *of_all]
        command += ["--engine", "torch", "--no-bettertransformer", "--batch-size", "256"]
        servers.append(Server("Infinity", await start(command, "/health"), "/embeddings", "bench"))
    return servers


async def _vectors(server: Server, texts: Sequence[str]) -> np.ndarray:
    headers = {"Content-Type": server.speaks, "Accept": server.speaks}
    rows = []
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:
        for text in texts[:NUM_CHECKED]:
            answer = await http.post(server.path, content=server.body(text), headers=headers)
            answer.raise_for_status()
            rows.append(server.vector(answer.content))
    return np.stack(rows)


async def _load(
    server: Server, texts: Sequence[str], num_clients: int, seconds: float
) -> dict[str, Any]:
    """Have callers ask one server, from several processes."""
    num_processes = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) // 2, num_clients // 8))
    address = urlsplit(server.url)
    order = {
        "host": address.hostname,
        "port": address.port,
        "path": server.path,
        "type": server.speaks,
        "bodies": [base64.b64encode(server.body(one)).decode() for one in texts],
        "clients": num_clients // num_processes,
        "seconds": seconds,
    }
    parts = await asyncio.gather(*(_process(order, seconds) for _ in range(num_processes)))
    return {
        "times_s": [one for part in parts for one in part["times_s"]],
        "failed": sum(part["failed"] for part in parts),
        "busy_s": max(part["busy_s"] for part in parts),
    }


async def _process(order: dict[str, Any], seconds: float) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "evals.bench.load_client"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    async with asyncio.timeout(seconds + 60):
        out, _ = await child.communicate(json.dumps(order).encode())
    found: dict[str, Any] = json.loads(out)
    return found
