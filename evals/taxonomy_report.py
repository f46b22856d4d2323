"""The page of tables that evals/taxonomy.py writes. Knows its record, measures nothing."""

from collections.abc import Mapping, Sequence
from typing import Any


def report(record: dict[str, Any], names: Sequence[str]) -> str:
    """Write the record as a page of tables."""
    curves = record["curves"]
    lines = [
        "# Texts into categories",
        "",
        f"`{record['command']}` with {', '.join(record['models'])}; {record['products']} products,",
        "title and description, into Shopify's 10,595 categories, zero-shot unless it says",
        "otherwise. One standard deviation of a share is about .04. The views and weights (of",
        "the title, .5, and of a node's name, 1.5) were looked for on these products; two rows say",
        "what is left when the other three constants are chosen elsewhere "
        f"({', '.join(map(str, record['constants chosen elsewhere']))} on",
        "names of categories). The weights of an example were looked for on them too, and are "
        "those that were",
        "chosen most often inside training folds; the last row chooses them there anew, from a "
        "grid of 32.",
        "",
        *_table("pipeline, products", record["rows"]),
        "",
        "## Sets",
        "",
        "Levels: how much of the old, or the source's, path is the text. Intents are flat.",
        "",
        *_table("texts", record["sets"]),
        "",
        *_table("intents", record["few-shot of intents"]),
        "",
        "## Confidence",
        "",
        f"The shipped curve, near ({curves['products'][0]}, {curves['products'][1]}), is fitted on "
        "names of renamed and mapped",
        f"categories; that of mappings ({curves['mappings'][0]}, {curves['mappings'][1]}) on one "
        "half of the mapping. From 50 texts in a call",
        "on they have a curve of their own: how often the two models agree on them, no labels. The",
        "measure is the plain calibration error over ten bins; the few products of each bin make",
        "it larger than it is, so beside it stands what a perfectly calibrated confidence of the",
        "same spread shows, how often that is .05 or less, and the middle 95 % over texts drawn",
        "again with replacement.",
        "",
        *_table("", record["calibration"]),
        "",
        "Flat labels without examples have no curve: the softmax of the mean cosine is how sure is",
        "right. Of labels drawn at random, their texts alone:",
        "",
        *_table("", record["few labels"]),
        "",
        "![Risk and coverage, reliability, accuracy by level](taxonomy.svg)",
        "",
        "## Stopping at a parent (`min_confidence`), products",
        "",
        "| " + " | ".join(record["stopping at parents"][0]) + " |",
        "|" + "---|" * len(record["stopping at parents"][0]),
    ]
    lines += [
        "| " + " | ".join(str(one) for one in row.values()) + " |"
        for row in record["stopping at parents"]
    ]
    return "\n".join(lines) + "\n"


def _table(first: str, rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    columns = list(next(iter(rows.values())))
    lines = [f"| {first} | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for name, values in rows.items():
        cells = [str(one) if isinstance(one, int) else f"{one:.3f}" for one in values.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines
