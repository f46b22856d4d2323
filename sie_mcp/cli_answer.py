"""A tool's answer for people: its lists as tables, the rest as lines. Knows no tool."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# More rows than this scroll past what anybody reads; a pipe gets all of them.
MAX_ROWS = 200
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def print_answer(console: Console, answer: dict[str, Any]) -> None:
    """Print an answer: what is one value first, then each list under its name."""
    lists = {name: value for name, value in answer.items() if _is_list(value)}
    for name, value in answer.items():
        if name not in lists:
            console.print(Text(f"{name}: ", style="bold") + _cell(value), soft_wrap=True)
    for name, rows in lists.items():
        console.print()
        console.print(_table(name, rows[:MAX_ROWS]))
        if len(rows) > MAX_ROWS:
            console.print(f"... and {len(rows) - MAX_ROWS} more", style="dim")


def print_table(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows; a column for every key that any of them has."""
    console.print(_table(title, rows))


def printable(text: str) -> str:
    """Return a text that cannot steer a terminal, whatever file it came from."""
    return "".join(c if c.isprintable() or c in "\n\t" else UNPRINTABLE for c in text)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], (dict, list))


def _table(title: str, rows: Sequence[Any]) -> Table:
    table = Table(title=printable(title), title_justify="left", box=None, pad_edge=False)
    named = [row if isinstance(row, dict) else {"value": row} for row in rows]
    columns = list(dict.fromkeys(key for row in named for key in row))
    for column in columns:
        is_number = all(isinstance(row.get(column, 0), int | float) for row in named)
        table.add_column(
            printable(column), overflow="fold", justify="right" if is_number else "left"
        )
    for row in named:
        table.add_row(*_cells(row, columns))
    return table


def _cells(row: dict[str, Any], columns: Iterable[str]) -> list[Text]:
    return [_cell(row[column]) if column in row else Text("") for column in columns]


def _cell(value: Any) -> Text:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text(printable(text))
