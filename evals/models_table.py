"""Writes docs/models.md from the catalogue and the recorded parity: `python -m evals.models_table`.

Measures nothing: run `python -m evals.parity` first where the architectures changed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from sie_mcp.catalogue.entries import Catalogue, Entry, Task
from sie_mcp.catalogue.files import load_catalogue

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "evals" / "results" / "parity.json"
PAGE = ROOT / "docs" / "models.md"
GENERIC = "transformers"  # The architecture of models that the library itself would have to run.
_TASKS: tuple[str, ...] = get_args(Task)
# What the record compares beside tasks, last.
_IMAGES = "images"
_COMPARED = (*_TASKS, _IMAGES)
_NONE = "–"
_TITLES = {
    "dense": "Embeddings",
    "sparse": "Sparse embeddings",
    "multivector": "Late interaction",
    "cross_encoder": "Rerankers",
    "classification": "Classifiers",
    "token_classification": "Token classifiers",
    "pruning": "Pruners",
    "zero_shot": "Classifiers of labels of your own",
    "structure": "Schemas of your own",
    "gliner": "Entities of your own labels",
}
_HEADER = (
    "model",
    "architecture",
    "tasks",
    "packed",
    "verified against",
    "max difference",
    "licence",
)
_INTRO = """\
# Models

Made by `python -m evals.models_table` from the catalogue and `evals/results/parity.json`; change
those, not this page. `sie-mcp models list` says the same of this machine's disk.

## Architectures

The largest absolute difference between our packed forward pass and the reference library, or the
authors' published formula, on the same tiny random weights, float32, CPU, over all rows of the
table of parity and all texts. The tests allow {tolerance:.0e}. Measured {date} with torch {torch}.
"dense" compares the vectors of single tokens too; "–" is a task that is not compared.
"""
_MODELS = """\
## Models of the catalogue

*packed*: yes, when the architecture is one of the table above, our own pass over texts laid end to
end; no, when transformers or the model's own code runs it. *verified against* and *max difference*
are those of the architecture and of the heads that the tasks need, on random weights; "–" stands
where a head or a way of asking is not compared.
A licence "?" is not known for sure: read the model's page. Non-commercial weights say NC.
"""


def page(catalogue: Catalogue, record: Mapping[str, Any]) -> str:
    """Return the text of docs/models.md."""
    comparisons: list[Mapping[str, Any]] = record["comparisons"]
    parts = [
        _INTRO.format(**record),
        _architectures(comparisons),
        _MODELS,
        *_models(catalogue.models, comparisons),
    ]
    return "\n".join(parts)


def _architectures(comparisons: Sequence[Mapping[str, Any]]) -> str:
    tasks = list(dict.fromkeys(one["task"] for one in comparisons))
    tasks.sort(key=lambda task: (_COMPARED.index(task.split()[0]), task))
    lines = []
    for name in sorted({one["architecture"] for one in comparisons}):
        own = [one for one in comparisons if one["architecture"] == name]
        rows = len({one["row"] for one in own})
        figures = [_worst([one for one in own if one["task"] == task]) for task in tasks]
        lines.append((name, _libraries(own), str(rows), *figures))
    return _table(("architecture", "verified against", "rows", *tasks), lines)


def _models(models: Iterable[Entry], comparisons: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    ordered = sorted(models, key=lambda entry: (entry.family, entry.size_bytes, entry.name))
    for task in _TASKS:
        lines = [_line(entry, comparisons) for entry in ordered if entry.tasks[0] == task]
        if lines:
            yield f"### {_TITLES[task]}\n\n{_table(_HEADER, lines)}"


def _line(entry: Entry, comparisons: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    own = [one for one in comparisons if one["architecture"] == entry.architecture]
    needed = {_compared_as(task, entry) for task in entry.tasks}
    needed |= {_IMAGES} if "image" in entry.inputs else set()
    used = [one for one in own if one["task"] in needed]
    is_verified = needed == {one["task"] for one in used}
    return (
        _linked(entry),
        entry.architecture or "?",
        ", ".join(entry.tasks),
        "no" if entry.architecture == GENERIC or not own else "yes",
        _libraries(used) if is_verified else _NONE,
        _worst(used) if is_verified else _NONE,
        entry.licence or "?",
    )


def _compared_as(task: str, entry: Entry) -> str:
    if task == "multivector":
        return "dense"  # The same vectors, before they are pooled.
    if task == "sparse" and "dense" in entry.tasks:
        return "sparse beside dense"  # A head of its own, not that of the masked language model.
    return f"{task} {entry.score_template}".strip() if task == "cross_encoder" else task


def _linked(entry: Entry) -> str:
    repos = [source.repo for source in entry.sources if source.repo]
    return f"[{entry.name}](https://huggingface.co/{repos[0]})" if repos else entry.name


def _libraries(comparisons: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({f"{one['library']} {one['version']}".strip() for one in comparisons}))


def _worst(comparisons: Sequence[Mapping[str, Any]]) -> str:
    if not comparisons:
        return _NONE
    return f"{max(one['max_difference'] for one in comparisons):.1e}"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(load_catalogue(), json.loads(RECORD.read_text("utf-8"))), "utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
