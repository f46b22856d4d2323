"""`python -m evals.families`: measure, print, and keep the figures in evals/results/families.json.

Fetches about 0.4 GB the first time. `--only PART …` runs some parts and keeps nothing; `--memory`
measures loads alone; `--references` measures the figures by the models' own libraries too. Exits
with 1 when a vector, a figure or a load is out of its bounds.
"""

import argparse
import datetime
import json
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from transformers.utils import logging as transformers_logging

from evals.families import compare
from evals.families.kit import Kit
from evals.families.parts import LOADED, PARTS
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.config import load_config
from sie_mcp.errors import DownloadFailed

RESULTS = Path(__file__).parents[1] / "results"
_LIBRARIES = (
    "torch", "transformers", "sentence-transformers", "model2vec", "safetensors", "onnx", "gguf",
)  # fmt: skip


def main() -> int:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [part.__name__ for part in PARTS]
    parser.add_argument("--only", nargs="+", choices=names, help="these parts, and keep nothing")
    parser.add_argument("--references", action="store_true", help="figures by the libraries too")
    parser.add_argument("--memory", action="store_true", help="loads alone; keep nothing")
    given = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    config, started = load_config(), time.perf_counter()
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as work:
        kit = Kit(
            cache_dir=config.cache_dir,
            options=FetchOptions.from_config(config),
            work=Path(work),
            texts=compare.texts(),
            with_references=given.references,
            only_loads=given.memory,
        )
        for part in LOADED if given.memory else PARTS:
            if part.__name__ in (given.only or names):
                print(f"{part.__name__}, {time.perf_counter() - started:.0f} s", flush=True)
                try:
                    part(kit)
                except DownloadFailed as error:
                    skipped[part.__name__] = str(error)
    _show(kit, skipped)
    seconds = round(time.perf_counter() - started, 1)
    if not (given.only or given.references or given.memory):
        record = json.dumps(_record(kit, skipped, seconds), indent=1)
        (RESULTS / "families.json").write_text(record + "\n")
    print(f"{seconds} s")
    found = [*kit.rows, *kit.figures, *kit.loads.values()]
    return 0 if all(one.is_right for one in found) else 1


def _record(kit: Kit, skipped: dict[str, str], seconds: float) -> dict[str, Any]:
    return {
        "command": "python -m evals.families",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "device": f"{platform.machine()} CPU",
        "seconds": seconds,
        "cpu_seconds": round(time.process_time(), 1),
        "versions": {name: _version(name) for name in _LIBRARIES},
        "tolerance": compare.TOLERANCE,
        "rows": [asdict(one) for one in kit.rows],
        "figures": [asdict(one) for one in kit.figures],
        "loads": {name: asdict(one) for name, one in kit.loads.items()},
        "skipped": skipped,
    }


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _show(kit: Kit, skipped: dict[str, str]) -> None:
    rows = Table(
        "model", "family", "layout", "class", "max diff", "min cosine", "to source", "right"
    )
    for row in kit.rows:
        made = "" if row.source_difference is None else f"{row.source_difference:.1e}"
        rows.add_row(
            row.model, row.family, row.layout, row.class_name, f"{row.max_difference:.1e}",
            f"{row.min_cosine:.7f}", made, _word(row.is_right),
        )  # fmt: skip
    figures = Table("model", "measure", "value", "reference", "right")
    for one in kit.figures:
        reference = "" if one.reference is None else f"{one.reference:.4f}"
        figures.add_row(one.model, one.measure, f"{one.value:.4f}", reference, _word(one.is_right))
    loads = Table("model", "weights, MB", "peak of a load, MB", "after, MB", "right")
    for name, load in kit.loads.items():
        sizes = (f"{size / 1e6:.0f}" for size in (load.weights, load.peak, load.after))
        loads.add_row(name, *sizes, _word(load.is_right))
    console = Console()
    for table in (rows, figures, loads):
        if table.rows:
            console.print(table)
    for name, reason in skipped.items():
        console.print(f"skipped {name}: {reason}")


def _word(is_right: bool) -> str:
    return "yes" if is_right else "NO"


if __name__ == "__main__":
    sys.exit(main())
