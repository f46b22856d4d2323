"""`python -m evals.bench [images] [--gpu]`: measure, print, keep the figures in evals/results.

A page of all of them, bench.md, and a picture, bench.svg, are kept up beside the records.

`--only extract,images` runs those beside their peers, one record each, and so do endtoend, rerank,
short, mixed and clients over the engine's whole path; `--tiny` checks on any machine that they run,
and keeps nothing unless `--out` says where.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from evals.bench import first_embedding, report, startup

RESULTS = Path(__file__).parents[1] / "results"
# What `--only` names beside the shapes and parts of `--gpu`.
BESIDE_PEERS = ("extract", "images")
# The same over the engine's whole path, from texts to answers.
WHOLE_PATHS = ("endtoend", "rerank", "short", "mixed", "clients")


def main() -> int:
    """Run the benchmarks of this machine's kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["texts", "images"], default="texts")
    parser.add_argument("--gpu", action="store_true", help="forward passes on the CUDA device")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep the figures")
    parser.add_argument(
        "--only",
        default="",
        help=f"{', '.join((*BESIDE_PEERS, *WHOLE_PATHS))}, or some with commas between; with --gpu "
        'also a shape, "latency"…',
    )
    parser.add_argument("--tiny", action="store_true", help="small shapes, to see that it runs")
    parser.add_argument(
        "--paths",
        action="append",
        default=[],
        help='with --gpu: kernels,graphs,overlap, or some, or ""; may be given several times',
    )
    parser.add_argument(
        "--fp8", action="store_true", help="with --gpu: the last of them in eight-bit floats too"
    )
    parser.add_argument(
        "--tokenizer", type=Path, help="a folder with tokenizer.json, for whole paths"
    )
    parser.add_argument("--threads", type=int, help="that tokenise, for whole paths")
    given = parser.parse_args()
    if given.gpu and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; leave --gpu out")
    if given.only and (not given.gpu or _named(given) <= {*BESIDE_PEERS, *WHOLE_PATHS}):
        return _beside_peers(given)
    device = "gpu" if given.gpu else "cpu"
    is_images = given.what == "images"
    more: dict[str, Any] = {}
    if is_images:
        rows = _images("cuda" if given.gpu else "cpu")
    elif given.gpu:
        gpu = importlib.import_module("evals.bench.gpu")
        more = gpu.measure(given.only, gpu.ways_of(given.paths, fp8=given.fp8))
        rows = more.pop("throughput")
    else:
        rows = _cpu()
    name = "-".join(["bench", *(["images"] if is_images else []), device])
    record = {
        "command": "python -m evals.bench"
        + (" images" if is_images else "")
        + (" --gpu" if given.gpu else "")
        + (f" --only {given.only}" if given.only else "")
        + "".join(f' --paths "{one}"' for one in given.paths)
        + (" --fp8" if given.fp8 else ""),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if given.gpu else f"{platform.machine()} CPU",
        "rows": rows,
        **more,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    report.write(given.out)
    _show(rows)
    if "latency" in more:
        _show(more["latency"])
    return 0


def _beside_peers(given: argparse.Namespace) -> int:
    """Run the workloads that are named; one that fails does not take the others with it."""
    device = torch.device("cuda" if given.gpu else "cpu")
    failed = 0
    for name in given.only.split(","):
        if name not in (*BESIDE_PEERS, *WHOLE_PATHS):
            known = ", ".join((*BESIDE_PEERS, *WHOLE_PATHS))
            raise SystemExit(f"--only {name!r} is not known; known: {known}")
        module = importlib.import_module(f"evals.bench.{name}")
        record: dict[str, Any] = {
            "command": " ".join(["python -m evals.bench", *sys.argv[1:]]),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
            "device": torch.cuda.get_device_name() if given.gpu else f"{platform.machine()} CPU",
        }
        try:
            if name in WHOLE_PATHS:
                record |= {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}
                record["rows"] = _whole_path(module, device, given)
            else:
                record["rows"] = _rows(module, device, tiny=given.tiny)
        except (RuntimeError, AssertionError, ValueError, ImportError, TypeError) as error:
            failed += 1
            record["error"] = f"{type(error).__name__}: {error}"
            print(f"{name} failed: {record['error']}", file=sys.stderr)
        else:
            _show(record["rows"])
        if not given.tiny or given.out != RESULTS:
            given.out.mkdir(parents=True, exist_ok=True)
            kind = "gpu" if given.gpu else "cpu"
            path = given.out / f"bench-{name}-{kind}.json"
            path.write_text(json.dumps(record, indent=1) + "\n")
            report.write(given.out)
    return 1 if failed else 0


def _rows(module: Any, device: torch.device, *, tiny: bool) -> list[dict[str, Any]]:
    measured = module.measure(device, tiny=tiny)
    rows: list[dict[str, Any]] = (
        module.as_rows(measured) if hasattr(module, "as_rows") else measured
    )
    return rows


def _whole_path(
    module: Any, device: torch.device, given: argparse.Namespace
) -> list[dict[str, Any]]:
    engines = importlib.import_module("evals.bench.engines")
    folders = importlib.import_module("evals.bench.folders")
    with tempfile.TemporaryDirectory() as work:
        asked = engines.Asked(
            device,
            Path(work),
            given.tokenizer or folders.TOKENIZER,
            tiny=given.tiny,
            paths=frozenset(_paths(given)),
            num_threads=given.threads,
        )
        rows: list[dict[str, Any]] = module.measure(asked)
    return rows


def _paths(given: argparse.Namespace) -> list[str]:
    """Return the ways of whole paths: the last that are given, or all."""
    last: str = given.paths[-1] if given.paths else "kernels,graphs,overlap"
    return [one for one in last.split(",") if one]


def _named(given: argparse.Namespace) -> set[str]:
    return set(given.only.split(","))


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
            "benchmark": f"process start to first embedding: {one.name}",
            "ours_s": round(one.wall_s, 2),
            "processor_s": round(one.processor_s, 2),
        }
        for one in first_embedding.measure()
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
