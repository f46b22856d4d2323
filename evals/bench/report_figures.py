"""The picture of evals/bench/report.py: shares of the floor, and ours over peers. Draws only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Row = dict[str, Any]
Bar = tuple[str, float]
# What stands in for the date and random ids, so that the same records give the same file.
_SALT = "bench"


def draw(records: dict[str, Row], path: Path) -> None:
    """Write the picture as SVG."""
    panels = {
        "share of the matrix products, heavy-tailed texts": list(_shares(records)),
        "a GPU: ours over the peer": list(_ratios(records)),
        "a CPU, long tail: over sentence-transformers": list(_engines(records)),
    }
    settings = {"svg.hashsalt": _SALT, "svg.fonttype": "none", "font.size": 8}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(14, 5), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for axis, (title, bars) in zip(axes, panels.items(), strict=True):
            _bars(axis, title, bars)
        figure.savefig(path, metadata={"Date": None})


def _bars(axis: Axes, title: str, bars: list[Bar]) -> None:
    axis.set_title(title, loc="right")
    names, values = [name for name, _ in bars], [value for _, value in bars]
    drawn = axis.barh(range(len(bars)), values, color="#4472a8")
    axis.bar_label(drawn, fmt="%.2f", padding=2)
    axis.set_yticks(range(len(bars)), names)
    axis.invert_yaxis()
    axis.axvline(1.0, color="#888888", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.15)


def _shares(records: dict[str, Row]) -> Iterator[Bar]:
    """Yield each model's best way, by budget and weights."""
    rows = [
        row for row in records.get("bench-gpu", {}).get("rows", []) if row["workload"] == "tail"
    ]
    best: dict[str, float] = {}
    for row in rows:
        eight = ", fp8" if row["weights"].startswith("float8") else ""
        name = f"{row['model']}{eight}, {row['budget']:,} tokens"
        best[name] = max(best.get(name, 0.0), row["of_floor"])
    yield from best.items()


def _ratios(records: dict[str, Row]) -> Iterator[Bar]:
    for kind in ("endtoend", "rerank", "short", "extract", "images"):
        for row in records.get(f"bench-{kind}-gpu", {}).get("rows", []):
            if "ratio" in row:
                own = [row.get("model") or row.get("family"), row.get("part"), row.get("budget")]
                yield ", ".join([kind, *(str(one) for one in own if one)]), row["ratio"]
    rows = records.get("bench-clients-gpu", {}).get("rows", [])
    rates = {(row["clients"], row["server"]): row["texts_s"] for row in rows}
    for clients, server in rates:
        if server == "Infinity":
            ratio = rates[clients, "ours"] / rates[clients, server]
            yield f"{clients} callers, Infinity", round(ratio, 2)


def _engines(records: dict[str, Row]) -> Iterator[Bar]:
    for row in records.get("bench-cpu-peers", {}).get("rows", []):
        yield row["engine"], row["heavy-tailed cpu_s ratio"]
