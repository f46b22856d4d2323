"""The page of tables that evals/taxonomy.py writes. Knows its record, measures nothing."""

from collections.abc import Sequence
from typing import Any


def report(record: dict[str, Any], names: Sequence[str]) -> str:
    """Write the record as a page of tables."""
    lines = [
        "# Products into 10,595 categories",
        "",
        f"`python -m evals.taxonomy`: {record['products']} products, title and description,",
        "zero-shot unless it says otherwise. One standard deviation of a share is about",
        ".04. Which views and models, and all weights, were looked for on these products; the",
        "row whose constants were chosen on one half and scored on the other says what is left",
        "of that (the second model, the weights of the title, .5, and of a node's name, 1.5, stay",
        "fixed in it). The two constants of few-shot were looked for on these products too.",
        "",
        "| pipeline | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for name, values in record["rows"].items():
        lines.append(f"| {name} | " + " | ".join(f"{one:.3f}" for one in values.values()) + " |")
    lines += [
        "",
        "## Calibration, the curve fitted on four folds for the fifth",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {name} | {value:.3f} |" for name, value in record["calibration"].items()]
    stops = record["stopping at parents"]
    lines += [
        "",
        "## Stopping at a parent (`min_confidence`), the curve fitted on these products",
        "",
        "| " + " | ".join(stops[0]) + " |",
    ]
    lines.append("|" + "---|" * len(stops[0]))
    lines += ["| " + " | ".join(str(one) for one in row.values()) + " |" for row in stops]
    return "\n".join(lines) + "\n"
