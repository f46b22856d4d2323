"""Every record of evals/bench as a page of tables and a picture: `python -m evals.bench.report`.

Reads evals/results/bench*.json, writes bench.md and bench.svg beside them; measures nothing. The
benchmarks write the page themselves; the picture needs matplotlib.
"""

import importlib.util
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
PAGE, PICTURE = "bench.md", "bench.svg"
Row = dict[str, Any]
# Kernels of a pass that are named; the rest is one row.
NUM_KERNELS = 8
# Of a record, what says where its figures are from.
_ABOUT = ("device", "processor", "cores", "python", "torch", "transformers", "load_average", "note")


def main() -> int:
    """Write both from what is there."""
    write(RESULTS)
    return 0


def write(folder: Path) -> None:
    """Write the page, and the picture where matplotlib is installed."""
    records = read(folder)
    (folder / PAGE).write_text(page(records))
    if importlib.util.find_spec("matplotlib") is None:
        print(f"{PICTURE} is not written: matplotlib is not installed", file=sys.stderr)
        return
    pictures = importlib.import_module("evals.bench.report_figures")
    pictures.draw(records, folder / PICTURE)


def read(folder: Path) -> dict[str, Row]:
    """Return the records by name, in the names' order."""
    return {one.stem: json.loads(one.read_text()) for one in sorted(folder.glob("bench*.json"))}


def page(records: dict[str, Row]) -> str:
    """Return the page: where each record is from, its rows, and where the time of a pass goes."""
    parts = [
        "# Speed beside peers",
        "",
        "A section is one run; only its own figures compare. Ratios are ours over the peer's.",
        "",
        f"![Share of the matrix products, and ours over peers]({PICTURE})",
    ]
    for name, record in records.items():
        parts += ["", f"## {name}", "", f"`{record.get('command', '')}`", "", _about(record)]
        parts += _error(record)
        for title in ("rows", "latency"):
            parts += _table(record.get(title, []))
        parts += _profiles(record.get("profile", []))
    return "\n".join(parts) + "\n"


def _about(record: Row) -> str:
    known = ((name, record.get(name)) for name in _ABOUT)
    return "; ".join(f"{name} {value}" for name, value in known if value is not None) + "."


def _error(record: Row) -> list[str]:
    return ["", f"It failed: {record['error']}"] if "error" in record else []


def _table(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + [
        "| " + " | ".join(_cell(row.get(name, "")) for name in names) + " |" for row in rows
    ]


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _profiles(profiles: Iterable[Row]) -> list[str]:
    lines: list[str] = []
    for one in profiles:
        kernels = sorted(one["kernels"], key=lambda kernel: -kernel["ms"])
        named, device_ms = kernels[:NUM_KERNELS], one["device_ms"]
        rest_ms = device_ms - sum(kernel["ms"] for kernel in named)
        shown = [(kernel["kernel"], kernel["ms"], kernel["calls"]) for kernel in named]
        lines += [
            "",
            f"{one['model']}, {one['workload']}, {one['budget']:,} tokens: {one['wall_ms']} ms, "
            f"the device {device_ms} ms of it.",
            "",
            "| kernel | ms | calls | share |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{kernel}` | {ms} | {calls} | {ms / device_ms:.2f} |" for kernel, ms, calls in shown
        ]
        lines.append(f"| others | {rest_ms:.3f} | | {rest_ms / device_ms:.2f} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
