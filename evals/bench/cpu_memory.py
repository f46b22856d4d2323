"""Memory of a process that embeds on a CPU: ours, bare and as a worker, and sentence-transformers.

In turn, each of several processes of its own: it embeds one text, then fifty passages, rests
until a worker has given back what it does not use, and embeds two more texts one by one. Linux.
Figures go to evals/results/cpu_memory.json.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evals.bench import cpu_peers
from evals.bench.cpu_engines import memory_bytes
from evals.bench.first_embedding import MODEL, SETTINGS, running_worker

PEER = "sentence-transformers float32"
DTYPES = ("float32", "bfloat16", "int8")
THREADS = 1
# About one batch of ours.
NUM_PASSAGES = 50
PYTHONS = {"peer_python": sys.executable, "infinity_python": sys.executable}
FIGURES = ("resident_bytes", "private_bytes", "peak_bytes")
Memory = dict[str, int]
Embed = Callable[[list[str]], Memory]


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    folder = cpu_peers.model_folder()
    passages = cpu_peers.workloads(folder)["heavy-tailed"][:NUM_PASSAGES]
    names = [f"{way} {dtype}" for way in ("ours", "worker") for dtype in DTYPES] + [PEER]
    found: dict[str, list[dict[str, Memory]]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            found[name].append(_measure(name, folder, passages))
    record = {
        "command": "python -m evals.bench.cpu_memory",
        "model": MODEL,
        "threads": THREADS,
        "runs": runs,
        "load_average": round(os.getloadavg()[0], 1),
        "rows": [_row(name, found[name], found[PEER]) for name in names],
    }
    text = json.dumps(record, indent=1) + "\n"
    (cpu_peers.RESULTS / "cpu_memory.json").write_text(text)
    sys.stdout.write(text)
    return 0


def _row(
    name: str, own: list[dict[str, Memory]], peer: list[dict[str, Memory]]
) -> dict[str, object]:
    """Return medians in MB, and how much they are of the peer's."""
    row: dict[str, object] = {"process": name}
    for moment in ("first", "rested"):
        for figure in FIGURES:
            mine, theirs = (
                statistics.median(one[moment][figure] for one in runs) for runs in (own, peer)
            )
            what = f"{moment} {figure.removesuffix('_bytes')}"
            row |= {f"{what}_mb": round(mine / 1e6), f"{what} ratio": round(mine / theirs, 2)}
    return row


def _measure(name: str, folder: Path, passages: list[str]) -> dict[str, Memory]:
    """Return what a new process has after its first text, and after work and a rest."""
    with _worker(name) if name.startswith("worker") else _library(name, folder) as embed:
        first = embed(["One short text."])
        embed(passages)
        time.sleep(cpu_peers.REST_S)
        embed(["One."])
        time.sleep(cpu_peers.REST_S)
        # What was given back and is needed is there again.
        embed(["Two."])
        return {"first": first, "rested": embed(["Three."])}


@contextmanager
def _library(name: str, folder: Path) -> Iterator[Embed]:
    engine = cpu_peers.Engine.start(name, folder, argparse.Namespace(threads=THREADS, **PYTHONS))
    if engine is None:
        raise RuntimeError(f"{name} does not run here")

    def embed(texts: list[str]) -> Memory:
        answer = engine.encode(texts, None)
        return {figure: int(answer[figure]) for figure in FIGURES}

    try:
        yield embed
    finally:
        engine.stop()


@contextmanager
def _worker(name: str) -> Iterator[Embed]:
    settings = SETTINGS | {"SIE_MCP_DTYPE": name.partition(" ")[2]}
    with running_worker(settings) as (process, ask):

        def embed(texts: list[str]) -> Memory:
            ask(texts)
            return memory_bytes(str(process.pid))

        yield embed


if __name__ == "__main__":
    sys.exit(main())
