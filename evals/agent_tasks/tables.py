"""Tables and folders that tasks are about: written, read back, and what reading all costs."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evals.agent_tasks.plain import Reader


def table(path: Path) -> list[dict[str, Any]]:
    """Read a table with a row of names."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, texts: Iterable[str]) -> list[str]:
    """Write a table of one column; return its lines."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([" ".join(text.split())] for text in texts)
    return path.read_text().splitlines()


def write_files(folder: Path, files: dict[str, list[str]]) -> None:
    """Make a folder of files, given as lines."""
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines))


def all_tokens(files: dict[str, list[str]]) -> int:
    """Return what reading everything costs."""
    reader = Reader(files)
    for name in files:
        reader.read(name)
    return reader.tokens
