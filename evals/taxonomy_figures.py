"""The pictures that evals/taxonomy.py draws: risk and coverage, reliability, accuracy by level."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# The same picture from the same numbers.
mpl.rcParams["svg.hashsalt"] = "taxonomy"


def draw(record: dict[str, Any], folder: Path) -> None:
    """Write one picture of three panels."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    coverage, reliable, levels = figure.subplots(1, 3)
    for name, points in record["risk_coverage"].items():
        coverage.plot(*zip(*points, strict=True), label=name)
    coverage.set(xlabel="coverage", ylabel="strict accuracy", title="Surest first", ylim=(0, 1.02))
    coverage.legend()
    reliable.plot((0, 1), (0, 1), color="grey", linewidth=1)
    for name, points in record["reliability"].items():
        confidence, accuracy, counts = zip(*points, strict=True)
        reliable.plot(confidence, accuracy, linewidth=1, label=name)
        reliable.scatter(confidence, accuracy, s=[2 * count for count in counts])
    reliable.set(xlabel="confidence", ylabel="strict accuracy", title="Reliability")
    reliable.legend()
    for name, values in record["by_level"].items():
        levels.plot(range(1, len(values) + 1), values, marker="o", label=name)
    levels.set(xlabel="level", ylabel="right down to here", title="By level", ylim=(0, 1.02))
    levels.legend()
    figure.savefig(folder / "taxonomy.svg", metadata={"Date": None})
