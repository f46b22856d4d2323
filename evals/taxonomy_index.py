"""The vectors of 10,595 categories: what building and loading them costs, in processor seconds too.

Run `python -m evals.taxonomy_index`. On a machine that does other work the wall time says little;
processor seconds of worker and gateway together, over two cores, are what it comes to where they
have those to themselves. Reads /proc, so Linux only.
"""

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from evals.local import local_client
from sie_mcp.catalogue.taxonomy import built_in, from_paths
from sie_mcp.config import load_config
from sie_mcp.gateway.lock import read_note
from sie_mcp.gateway.runtime_folder import runtime_folder
from sie_mcp.gateway.worker_settings import worker_name
from sie_mcp.tools.classification import COMPANION
from sie_mcp.tools.node_vectors import NodeVectorStore

RESULTS = Path(__file__).parent / "results"
MODELS = ("auto", COMPANION)
NUM_CORES = 2


async def measure() -> dict[str, Any]:
    """Build and load with both models, in an empty folder, on models that are loaded already."""
    tree, rows = built_in("shopify"), []
    async with local_client() as client:
        with tempfile.TemporaryDirectory() as folder:
            store = NodeVectorStore(client, Path(folder))
            for model in MODELS:
                await store.get(model, from_paths(["warm", "up"]), _quiet)
            for what in ("build", "load"):
                for model in MODELS:
                    began_s, gateway_s, worker_s = now()
                    await store.get(model, tree, _quiet)
                    ended_s, gateway_end_s, worker_end_s = now()
                    rows.append(
                        {
                            "what": f"{what} {model}",
                            "wall_s": round(ended_s - began_s, 3),
                            "gateway_cpu_s": round(gateway_end_s - gateway_s, 2),
                            "worker_cpu_s": round(worker_end_s - worker_s, 2),
                        }
                    )
    build = [row for row in rows if row["what"].startswith("build")]
    cpu_s = sum(row["gateway_cpu_s"] + row["worker_cpu_s"] for row in build)
    return {
        "command": "python -m evals.taxonomy_index",
        "threads": os.environ.get("SIE_MCP_NUM_THREADS")
        or os.environ.get("OMP_NUM_THREADS", "all"),
        "load_average": [round(one, 1) for one in os.getloadavg()],
        "categories": len(tree.paths),
        "rows": rows,
        "build_wall_s": round(sum(row["wall_s"] for row in build), 1),
        "build_cpu_s": round(cpu_s, 1),
        f"build_s_on_{NUM_CORES}_own_cores": round(cpu_s / NUM_CORES, 1),
    }


def now() -> tuple[float, float, float]:
    """Return the time, and the processor seconds of this process and of the worker."""
    return time.perf_counter(), time.process_time(), _worker_cpu_s()


def _worker_cpu_s() -> float:
    config = load_config()
    name = worker_name(config)
    pid = read_note(runtime_folder(config.runtime_dir, f"{name}.sock") / f"{name}.lock")
    fields = Path(f"/proc/{int(pid)}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _quiet(done: float, total: float, message: str) -> None:
    """Show nothing."""


def main() -> None:
    """Measure and record."""
    record = asyncio.run(measure())
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "taxonomy_index.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
