"""How many tokens an agent reads for ten tasks, with our tools and by plain reading.

Run `python -m evals.agent_tokens`; it needs `sie-mcp[search]` and `[evals]`. Every tool is called
through MCP, with real models. Plain reading is done by a perfect reader (`agent_tasks/plain.py`)
who stops as soon as it has found what the tools found: the comparison is at equal quality, and what
reading everything would give, and cost, stands beside it.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console

from evals.agent_tasks import pages, questions, rows
from evals.agent_tasks.agent import TOKENIZER, Agent, agent
from evals.agent_tasks.outcome import Outcome

TASKS: tuple[Callable[[Agent, Path], Awaitable[Outcome]], ...] = (
    questions.long_file,
    questions.folder_of_notes,
    questions.abstracts,
    questions.triage,
    rows.products,
    pages.people,
    rows.doubles,
    rows.two_lists,
    rows.topics,
    pages.contact_data,
)
TARGET_RATIO = 20.0
RESULTS = Path(__file__).parent / "results" / "agent_tokens"


async def run(names: Sequence[str], console: Console) -> tuple[list[Outcome], dict[str, int]]:
    """Do the tasks; return what they cost, and the tokens of each tool's definition."""
    outcomes = []
    definitions: dict[str, int] = {}
    for task in TASKS:
        if names and task.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "work"
            folder.mkdir()
            started = time.perf_counter()
            async with agent(folder) as user:
                outcomes.append(await task(user, folder))
                definitions = user.definitions | {"instructions": user.instructions}
            console.print(_row(outcomes[-1]), f"{time.perf_counter() - started:.0f} s")
    return outcomes, definitions


def _row(one: Outcome) -> str:
    first = "" if one.first_quality is None else f"{one.first_quality:.2f}"
    ceiling = "" if one.ceiling_tokens is None else f"{one.ceiling_tokens:,}"
    return (
        f"| {one.task} | {', '.join(one.tools)} | {one.measure} "
        f"| {one.tools_quality:.2f} | {first} | {one.plain_quality:.2f} "
        f"| {one.plain_tokens:,} | {one.tools_tokens:,} "
        f"| {one.ratio:.1f} | {ceiling} |"
    )


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table that stands beside the numbers."""
    head = [
        "| task | tools | quality is | tools | first call | plain | plain tokens | tools tokens "
        "| times fewer | to read all |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    summary = (
        f"Median {_median(outcomes):.1f} times fewer tokens (target {TARGET_RATIO:.0f}); "
        f"least {min(one.ratio for one in outcomes):.1f}; "
        f"{sum(not one.is_as_good for one in outcomes)} tasks done worse than the reading they are "
        f"compared with. In {sum(one.is_below_ceiling for one in outcomes)} tasks that reading was "
        "stopped at the tools' own quality, so that equality there is no finding: a perfect reader "
        "who reads everything gets 1.00 in them, for the tokens of the last column where it was "
        "counted. Measured against such a reader these tasks are not done as well."
    )
    note = (
        f"`python -m evals.agent_tokens`; tokens of {TOKENIZER}; with our tools the definitions of "
        "those called, all arguments and all results. Plain reading is a perfect reader's, who "
        "stops as soon as it has found what the tools found. Of an abstract or a search hit what "
        "was shown counts as read, be it an excerpt."
    )
    return "\n".join(
        ["# Tokens an agent reads", "", note, "", *head, *map(_row, outcomes), "", summary, ""]
    )


def _median(outcomes: Sequence[Outcome]) -> float:
    return statistics.median(one.ratio for one in outcomes)


def _merged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Put new outcomes in the place of recorded ones."""
    new = {one.task: one for one in outcomes}
    rows = json.loads(RESULTS.with_suffix(".json").read_text())["tasks"]
    names = [field.name for field in fields(Outcome)]
    old = [Outcome(**{name: row[name] for name in names}) for row in rows]
    return [new.pop(one.task, one) for one in old] + list(new.values())


def main() -> int:
    """Do, print, record; 1 if a task is done worse or costs more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=", ".join(task.__name__ for task in TASKS))
    given = parser.parse_args()
    console = Console(width=200)
    outcomes, definitions = asyncio.run(run(given.tasks, console))
    if given.tasks and RESULTS.with_suffix(".json").exists():
        outcomes = _merged(outcomes)
    record = {
        "command": "python -m evals.agent_tokens",
        "tokenizer": TOKENIZER,
        "definitions": definitions,
        "median_ratio": round(_median(outcomes), 2),
        "tasks": [asdict(one) | {"ratio": round(one.ratio, 2)} for one in outcomes],
    }
    RESULTS.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    RESULTS.with_suffix(".md").write_text(as_markdown(outcomes))
    console.print(as_markdown(outcomes))
    return 0 if all(one.is_as_good and one.ratio >= 1 for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
