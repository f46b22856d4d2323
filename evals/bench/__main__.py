"""`python -m evals.bench [images] [--gpu]`: measure, print, keep the figures in evals/results."""

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from evals.bench import startup

RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Run the benchmarks of this machine's kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["texts", "images"], default="texts")
    parser.add_argument("--gpu", action="store_true", help="forward passes on the CUDA device")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep the figures")
    parser.add_argument("--only", default="", help='of --gpu: a shape, or parts: "latency,profile"')
    given = parser.parse_args()
    device = "gpu" if given.gpu else "cpu"
    is_images = given.what == "images"
    more: dict[str, Any] = {}
    if is_images:
        rows = _images("cuda" if given.gpu else "cpu")
    elif given.gpu:
        more = importlib.import_module("evals.bench.gpu").measure(given.only)
        rows = more.pop("throughput")
    else:
        rows = _cpu()
    name = f"bench-images-{device}" if is_images else f"bench-{device}"
    record = {
        "command": "python -m evals.bench"
        + (" images" if is_images else "")
        + (" --gpu" if given.gpu else "")
        + (f" --only {given.only}" if given.only else ""),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if given.gpu else f"{platform.machine()} CPU",
        "rows": rows,
        **more,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    _show(rows)
    if "latency" in more:
        _show(more["latency"])
    return 0


def _images(device: str) -> list[dict[str, Any]]:
    module = importlib.import_module("evals.bench.images")
    rows: list[dict[str, Any]] = module.as_rows(module.measure(torch.device(device)))
    return rows


def _cpu() -> list[dict[str, Any]]:
    """Ratios to peers: absolute times of a shared machine mean nothing."""
    started = startup.measure()
    rows = [
        {
            "benchmark": "process start to tools/list",
            "ours_s": round(started.ours_s, 2),
            "peer": "bare SDK server",
            "peer_s": round(started.floor_s, 2),
            "peer_over_ours": round(1 / started.ratio, 2),
        }
    ]
    rows += [
        {
            "benchmark": f"embed {one.workload}",
            "ours_s": round(one.ours_s, 2),
            "peer": "sentence-transformers",
            "peer_s": round(one.sentence_transformers_s, 2),
            "peer_over_ours": round(one.ratio, 2),
            "min_cosine": round(one.min_cosine, 7),
        }
        for one in importlib.import_module("evals.bench.cpu").measure()
    ]
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(*names)
    for row in rows:
        table.add_row(*(_cell(row.get(name, "")) for name in names))
    Console(width=130).print(table)


def _cell(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, float) and value > 1000 else str(value)


if __name__ == "__main__":
    sys.exit(main())
