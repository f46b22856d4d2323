"""Products a second on two processor cores, and what each stage of the pipeline takes of it.

Run `python -m evals.taxonomy_stages` on a machine that does nothing else: below two minutes. A
worker of its own with two threads, models loaded and categories read beforehand. While a block is
decided the next is encoded, so that stages overlap and their sum is more than the wall time;
processor seconds of worker and gateway stand beside it. The products are those of taxonomy_scale:
all different. Reads /proc, so Linux only.
"""

import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from evals.local import local_client
from evals.taxonomy_index import now
from evals.taxonomy_scale import make_rows, prepared, quiet, timed, timed_async, write_rows
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.writer import Writer
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.readings import Reader
from sie_mcp.tools.words import WordIndex

RESULTS = Path(__file__).parent / "results"
NUM_THREADS = 2
NUM_PRODUCTS = 2_048
NUM_WARM = 32


async def measure(num_products: int = NUM_PRODUCTS) -> dict[str, Any]:
    """Classify products from a file to a file, each stage timed."""
    seconds: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "catalogue.csv", num_products)
        async with local_client() as client:
            began_s = time.perf_counter()
            work = await prepared(client, folder)
            warm = [f"{title}. {about}" for _, title, about in make_rows()[-NUM_WARM:]]
            work.classifier.decide(await work.classifier.look(warm, quiet))
            prepared_s = time.perf_counter() - began_s
            _time_stages(seconds)
            load = os.getloadavg()
            start_s, gateway_s, worker_s = now()
            result = await work.run(quiet)
            end_s, gateway_end_s, worker_end_s = now()
    assert result.count == num_products and result.failed is None
    wall_s = end_s - start_s
    cpu_s = (gateway_end_s - gateway_s) + (worker_end_s - worker_s)
    return {
        "command": "python -m evals.taxonomy_stages",
        "threads": NUM_THREADS,
        "load_average_before": [round(one, 1) for one in load],
        "products": num_products,
        "prepare_s": round(prepared_s, 1),
        "wall_s": round(wall_s, 2),
        "products_per_s": round(num_products / wall_s, 1),
        "gateway_cpu_s": round(gateway_end_s - gateway_s, 2),
        "worker_cpu_s": round(worker_end_s - worker_s, 2),
        "products_per_cpu_s": round(num_products / cpu_s, 1),
        "stages": shares(dict(seconds), num_products),
    }


def _time_stages(seconds: dict[str, float]) -> None:
    timed_async(Reader, "view", seconds, lambda reader: f"encode {reader.model}")
    timed(WordIndex, "similarities", seconds)
    timed(Classifier, "evidence", seconds)
    timed(Classifier, "calibrated", seconds)
    timed(Classifier, "decide", seconds)
    timed(Journal, "add", seconds)
    timed(Writer, "write", seconds)


def shares(seconds: dict[str, float], num_products: int) -> list[dict[str, Any]]:
    """Return for each stage its seconds, its share of all of them, and what it could do alone.

    Words are looked up inside `evidence`, and that inside `calibrated` and `decide`: each second
    counts once.
    """
    words, evidence = seconds["WordIndex.similarities"], seconds["Classifier.evidence"]
    decided = seconds["Classifier.calibrated"] + seconds["Classifier.decide"]
    spent = {name: one for name, one in seconds.items() if name.startswith("encode ")} | {
        "shared words": words,
        "cosines with the categories": evidence - words,
        "fusing, deciding, confidence": decided - evidence,
        "journal": seconds["Journal.add"],
        "writing the file": seconds["Writer.write"],
    }
    total_s = sum(spent.values())
    return [
        {
            "stage": name,
            "seconds": round(one, 2),
            "share": round(one / total_s, 3),
            "products_per_s": round(num_products / max(one, 1e-9), 1),
        }
        for name, one in spent.items()
    ]


def main() -> None:
    """Measure and record, with a worker that nobody else shares."""
    os.environ["SIE_MCP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(NUM_THREADS)
    os.environ.setdefault("SIE_MCP_WORKER_IDLE_EXIT_S", "30")
    record = asyncio.run(measure())
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "taxonomy_stages.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
