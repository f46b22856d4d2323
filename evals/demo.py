"""The main job, end to end, as an agent would do it: a real MCP client over stdio, real models.

`python -m evals.demo` starts `sie-mcp stdio`, classifies a file of products into 10,595 categories,
ranks and filters a long document for a question, extracts entities, and shows what an agent would
have had to read against what it did read. Four characters count as a token.
"""

import asyncio
import csv
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from evals.datasets import DATA, read_jsonl

CHARS_PER_TOKEN = 4
QUESTION = "What has been done to hurt the Russian economy?"
PRODUCTS, SPEECH = DATA / "products.dev.jsonl", DATA / "state_of_the_union.txt"
NUM_SENTENCES = 400
console = Console(width=110)


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call: what it cost an agent, and what reading the data itself would have cost."""

    name: str
    seconds: float
    tokens_otherwise: int
    tokens_read: int

    @property
    def times_fewer(self) -> float:
        """How many times less the agent read."""
        return self.tokens_otherwise / max(self.tokens_read, 1)


class Agent:
    """An MCP session that keeps the account."""

    def __init__(self, session: Client) -> None:
        self._session = session
        self.steps: list[Step] = []

    async def call(self, tool: str, otherwise: int, **arguments: Any) -> dict[str, Any]:
        """Call a tool; count the tokens of its arguments and its answer."""
        started = time.perf_counter()
        with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
                      console=console, transient=True) as bar:  # fmt: skip
            task = bar.add_task(tool, total=None)

            async def show(done: float, total: float | None, message: str | None) -> None:
                bar.update(task, description=f"{tool}: {message or ''} {done:.0f}/{total or 0:.0f}")

            result = await self._session.call_tool(tool, arguments, progress_callback=show)
        text = result.content[0].text
        if result.is_error:
            raise SystemExit(f"{tool}: {text}")
        read = (len(text) + len(json.dumps(arguments))) // CHARS_PER_TOKEN
        seconds = time.perf_counter() - started
        self.steps.append(Step(tool, seconds, otherwise, read))
        answer: dict[str, Any] = result.structured_content
        return answer


def tokens_of(path: Path) -> int:
    """Estimate what reading a file costs."""
    return len(path.read_text("utf-8")) // CHARS_PER_TOKEN


async def classify(agent: Agent, folder: Path) -> None:
    """Put every product of a file into one of 10,595 categories; the agent reads a summary."""
    output = folder / "classified.csv"
    answer = await agent.call(
        "classify_taxonomy",
        tokens_of(PRODUCTS),
        path=str(PRODUCTS),
        columns=["title", "description"],
        output_path=str(output),
    )
    table = Table(title=f"127 products into {answer['num_categories']:,} categories", width=100)
    for name in ("product", "category", "score"):
        table.add_column(name)
    rows = output.read_text("utf-8").splitlines()
    titles = [json.loads(line)["title"] for line in PRODUCTS.read_text("utf-8").splitlines()]
    for row, title in list(zip(csv.DictReader(rows), titles, strict=True))[::18]:
        table.add_row(title, row["path"], row["score"])
    console.print(table)
    counts = list(answer["counts"].items())[:6]
    console.print("largest groups:", ", ".join(f"{name} {count}" for name, count in counts), "\n")


async def rank(agent: Agent, folder: Path) -> None:
    """Find the paragraphs of a speech that answer a question."""
    paragraphs = [one for one in SPEECH.read_text("utf-8").split("\n") if len(one) > 40]
    listing = folder / "paragraphs.txt"
    listing.write_text("\n".join(paragraphs), encoding="utf-8")
    answer = await agent.call(
        "rerank", tokens_of(listing), query=QUESTION, path=str(listing), top_k=3, return_text=True
    )
    table = Table(title=f"Best of {len(paragraphs)} paragraphs: {QUESTION}", width=100)
    table.add_column("score")
    table.add_column("paragraph")
    for row in answer["results"]:
        table.add_row(f"{row['score']:.2f}", paragraphs[row["index"]])
    console.print(table)


async def keep(agent: Agent, _: Path) -> None:
    """Keep the sentences of a whole speech that matter for the question."""
    answer = await agent.call(
        "filter_context", tokens_of(SPEECH), query=QUESTION, path=str(SPEECH), max_tokens=300
    )
    console.print(f"[bold]What the speech says about it[/bold] ({answer['model']}):")
    console.print("\n".join(one["text"] for one in answer["results"]), "\n", highlight=False)


async def extract(agent: Agent, folder: Path) -> None:
    """Find the people in encyclopedia sentences."""
    sentences = [" ".join(row["tokens"]) for row in read_jsonl("wikigold.jsonl")[:NUM_SENTENCES]]
    listing = folder / "encyclopedia.txt"
    listing.write_text("\n".join(sentences), encoding="utf-8")
    answer = await agent.call(
        "extract_entities",
        tokens_of(listing),
        path=str(listing),
        labels=["GIVEN_NAME", "SURNAME"],
        threshold=0.9,
    )
    counts = ", ".join(f"{label} {count}" for label, count in answer["counts"].items())
    table = Table(title=f"People in {NUM_SENTENCES} encyclopedia sentences: {counts}", width=100)
    table.add_column("label")
    table.add_column("found most often")
    found: dict[str, Counter[str]] = {}
    for item in answer["results"]:
        for entity in item["entities"]:
            times = len(entity["spans"]) + entity.get("more_spans", 0)
            found.setdefault(entity["label"], Counter())[entity["text"]] += times
    for label, texts in sorted(found.items()):
        table.add_row(label, ", ".join(name for name, _ in texts.most_common(12)))
    console.print(table)


def show_account(steps: list[Step]) -> None:
    """Print time and tokens of each step."""
    table = Table(title="What an agent reads (tokens, four characters each)", width=100)
    for name in ("step", "seconds", "reading the data", "with the tool", "times fewer"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for step in steps:
        table.add_row(
            step.name,
            f"{step.seconds:.1f}",
            f"{step.tokens_otherwise:,}",
            f"{step.tokens_read:,}",
            f"{step.times_fewer:.1f}",
        )
    total = Step(
        "together",
        sum(step.seconds for step in steps),
        sum(step.tokens_otherwise for step in steps),
        sum(step.tokens_read for step in steps),
    )
    table.add_section()
    table.add_row(
        total.name,
        f"{total.seconds:.1f}",
        f"{total.tokens_otherwise:,}",
        f"{total.tokens_read:,}",
        f"{total.times_fewer:.1f}",
    )
    console.print(table)


def show_memory(listing: dict[str, Any]) -> None:
    """Print which models are in memory and how much they take."""
    loaded = [one for one in listing["models"] if one.get("loaded")]
    names = ", ".join(f"{one['name']} {one.get('size_mb', 0)} MB" for one in loaded)
    console.print(f"in the worker's memory: {names}\n")


STEPS: tuple[Callable[[Agent, Path], Awaitable[None]], ...] = (classify, rank, keep, extract)


async def run() -> None:
    """Start the server and do the job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "sie_mcp", "stdio", "--allow", str(DATA), "--allow", str(folder)],
            env=dict(os.environ),
        )
        async with Client(stdio_client(parameters)) as session:
            tools = (await session.list_tools()).tools
            names = ", ".join(tool.name for tool in tools)
            console.print(f"sie-mcp over stdio, protocol {session.protocol_version}: {names}\n")
            agent = Agent(session)
            for step in STEPS:
                await step(agent, folder)
            listing = (await session.call_tool("list_models", {})).structured_content
            show_memory(listing or {"models": []})
            show_account(agent.steps)


def main() -> None:
    """Run the demo."""
    started = time.perf_counter()
    asyncio.run(run())
    console.print(f"done in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
