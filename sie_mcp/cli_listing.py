"""Rows of models for people and programs: chosen, grouped by task, as a table, lines or JSON.

Knows rows; knows nothing of where they came from.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import get_args

import typer
from rich.console import Console
from rich.table import Table

from sie_mcp.catalogue.entries import Task
from sie_mcp.catalogue.inventory import Row
from sie_mcp.cli_progress import megabytes
from sie_mcp.errors import SettingError

TASKS: tuple[str, ...] = get_args(Task)


def choose(rows: Sequence[Row], *, family: str, task: str) -> list[Row]:
    """Keep the rows of a family and a task; "" keeps all.

    Raises:
        SettingError: no such task, or no row of that family; names those that there are.
    """
    families = sorted({row.family for row in rows if row.family})
    if task and task not in TASKS:
        raise SettingError(f"no task {task!r}; known: {', '.join(TASKS)}")
    if family and family not in families:
        raise SettingError(f"no family {family!r}; known: {', '.join(families)}")
    return [
        row
        for row in rows
        if (not family or row.family == family) and (not task or task in row.tasks)
    ]


def grouped(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows by what they are made for first, in the order of `TASKS`; the unknown last.

    Within a group families stay together, the smallest model first.
    """
    groups: dict[str, list[Row]] = {task: [] for task in (*TASKS, "")}
    for row in sorted(rows, key=lambda row: (row.family, row.size_bytes, row.name)):
        groups[row.tasks[0] if row.tasks else ""].append(row)
    return [group for group in groups.values() if group]


def as_json(rows: Sequence[Row]) -> str:
    """Write rows with all their fields as one JSON list."""
    return json.dumps([asdict(row) for row in rows], default=str, ensure_ascii=False, indent=1)


def print_rows(*groups: Sequence[Row], columns: Sequence[str]) -> None:
    """Print a table on a terminal, else lines with tabs; then the attributions of what is there."""
    print_cells(*([_cells(row) for row in group] for group in groups), columns=columns)
    for row in (row for group in groups for row in group):
        if row.attribution and row.folder:
            typer.echo(f"{row.name}: {row.attribution}")


def print_cells(*groups: Sequence[Mapping[str, str]], columns: Sequence[str]) -> None:
    """Print these columns of rows of text: a table on a terminal, else lines with tabs."""
    console = Console()
    if not any(groups):
        return
    if console.is_terminal:
        console.print(_table(groups, columns))
        return
    typer.echo("\t".join(columns))
    for cells in (cells for group in groups for cells in group):
        typer.echo("\t".join(cells[column] for column in columns))


def _table(groups: Sequence[Sequence[Mapping[str, str]]], columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for number, group in enumerate(groups):
        if number:
            table.add_row()
        for cells in group:
            table.add_row(*(cells[column] for column in columns))
    return table


def _cells(row: Row) -> dict[str, str]:
    folder = str(row.folder) if row.folder else "no"
    return {
        "name": row.name,
        "tasks": ", ".join(row.tasks) or "?",
        "architecture": row.architecture or "?",
        "size": megabytes(row.size_bytes),
        "source": row.source,
        "folder": folder,
        "on disk": folder,
        "licence": row.licence or "?",
    }
