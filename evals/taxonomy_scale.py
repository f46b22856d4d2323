"""10,000 products into 10,595 categories in one call that is killed half-way and made again.

Run `python -m evals.taxonomy_scale`. There are only 127 labelled products, so that the 10,000 are
made of them by words of colour, size, material and lot: all texts differ and are as long as real
ones, and nothing is said here about how right the categories are. A tenth repeats another row.
"""

import asyncio
import csv
import functools
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import datasets
from evals.local import local_client
from sie_mcp.catalogue.taxonomy import built_in
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import load_config
from sie_mcp.tools.categories.choice import Choice
from sie_mcp.tools.categories.file_rows import Counted, FileRows, find_rows
from sie_mcp.tools.categories.file_run import run_files
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.labelled import ClassifyOptions, ClassifyResult
from sie_mcp.tools.categories.writer import Writer
from sie_mcp.tools.classification import COMPANION, Classifier, prepare
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.result import compact, estimate_tokens

RESULTS = Path(__file__).parent / "results"
NUM_ROWS = 10_000
NUM_DIFFERENT = 9_000
KILL_AT = 0.5
WAIT_S = 3_000
COLOURS = ("black", "white", "red", "navy blue", "olive", "grey", "beige", "pink", "yellow")
SIZES = ("small", "medium", "large", "XL", "12 cm", "500 ml", "set of 2", "pack of 6", "2 kg")


def make_rows() -> list[tuple[str, str, str]]:
    """Return id, title and description of each row."""
    products = datasets.read_jsonl("products.dev.jsonl")
    ways = itertools.product(COLOURS, SIZES, products)
    rows = []
    for number, (colour, size, product) in enumerate(itertools.islice(ways, NUM_DIFFERENT)):
        title = f"{product['title']}, {colour}, {size}"
        rows.append((f"p{number}", title, f"{product['description']} Lot {number}."))
    again = [(f"again-{one[0]}", *one[1:]) for one in rows[: NUM_ROWS - NUM_DIFFERENT]]
    return [*rows, *again]


def write_rows(file: Path, num_rows: int = NUM_ROWS) -> None:
    """Write the catalogue, or its first rows."""
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(("id", "title", "description"))
        table.writerows(make_rows()[:num_rows])


async def one_call(folder: Path, stop_at: float) -> dict[str, Any]:
    """Make the call in this process; kill it once a share of the texts is done."""
    seconds: dict[str, float] = defaultdict(float)
    timed_async(Classifier, "look", seconds)
    timed(Classifier, "decide", seconds)
    timed(Journal, "add", seconds)
    timed(Writer, "write", seconds)

    async def progress(done: float, total: float, message: str) -> None:
        if message == "classifying texts" and done >= stop_at * total > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    began_s = time.perf_counter()
    async with local_client() as client:
        work = await prepared(client, folder)
        prepared_s = time.perf_counter()
        result = await work.run(progress)
    text = compact(result).content[0].text  # type: ignore[union-attr]
    return {
        "prepare_s": prepared_s - began_s,
        "run_s": time.perf_counter() - prepared_s,
        "stages_s": {name: round(spent_s, 1) for name, spent_s in seconds.items()},
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "summary_tokens": estimate_tokens(text),
        "summary": json.loads(text),
    }


@dataclass(frozen=True, slots=True)
class Work:
    """A catalogue that is ready to be classified, and by what."""

    classifier: Classifier
    rows: FileRows
    counted: Counted
    output: AllowedPath

    async def run(self, progress: Progress) -> ClassifyResult:
        """Classify every row and write the file."""
        options = ClassifyOptions(self.classifier.choice, output=self.output)
        return await run_files(
            self.classifier, self.rows, self.counted, options, self.output, progress
        )


async def prepared(client: EngineClient, folder: Path) -> Work:
    """Read `catalogue.csv` once, and have the categories read."""
    config = load_config().model_copy(update={"allow": (folder,)})
    context = ToolContext(client, config)
    rows = find_rows(context, "catalogue.csv", ["title", "description"])
    counted = rows.count()
    store = NodeVectorStore(client, config.cache_dir / "taxonomies")
    choice = Choice(min_confidence=0.7)
    classifier = await prepare(client, store, "auto", built_in("shopify"), choice, quiet)
    output = context.folders.to_write("out.jsonl", (".jsonl",), argument="output_path")
    return Work(classifier, rows, counted, output)


def timed(owner: type, name: str, seconds: dict[str, float]) -> None:
    """Add up what a method takes, under its class's name and its own."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        began_s = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            seconds[f"{owner.__name__}.{name}"] += time.perf_counter() - began_s

    setattr(owner, name, call)


def timed_async(
    owner: type, name: str, seconds: dict[str, float], label: Callable[[Any], str] | None = None
) -> None:
    """Add up what an async method takes; `label` names it by the object instead."""
    function: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(function)
    async def call(*arguments: Any, **options: Any) -> Any:
        began_s = time.perf_counter()
        key = label(arguments[0]) if label else f"{owner.__name__}.{name}"
        try:
            return await function(*arguments, **options)
        finally:
            seconds[key] += time.perf_counter() - began_s

    setattr(owner, name, call)


async def index_times() -> dict[str, float]:
    """Build and load the node vectors of both models, in an empty folder."""
    tree, spent = built_in("shopify"), {}
    async with local_client() as client:
        with tempfile.TemporaryDirectory() as folder:
            for what in ("build_s", "load_s"):
                for model in ("auto", COMPANION):
                    began_s = time.perf_counter()
                    await NodeVectorStore(client, Path(folder)).get(model, tree, quiet)
                    spent[f"{what} {model}"] = round(time.perf_counter() - began_s, 3)
    return spent


async def quiet(done: float, total: float, message: str) -> None:
    """Show nothing."""


def measure() -> dict[str, Any]:
    """Kill a call, make it again, and say what both cost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "catalogue.csv")
        command = [sys.executable, "-m", "evals.taxonomy_scale", name]
        began_s = time.perf_counter()
        killed = subprocess.run([*command, str(KILL_AT)], timeout=WAIT_S, check=False)
        assert killed.returncode == -signal.SIGKILL, "it was done before it could be killed"
        killed_s = time.perf_counter() - began_s
        again = subprocess.run([*command, "2"], timeout=WAIT_S, check=True, capture_output=True)
        second = json.loads(again.stdout.splitlines()[-1])
        num_lines = sum(1 for _ in (folder / "out.jsonl").open())
        left = [path.name for path in folder.iterdir() if path.name.endswith(".journal")]
    resumed = second["summary"]["resumed"]
    return {
        "command": "python -m evals.taxonomy_scale",
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "load_average": [round(one, 1) for one in os.getloadavg()],
        "rows": NUM_ROWS,
        "different_texts": NUM_DIFFERENT,
        "killed_after_s": round(killed_s, 1),
        "resumed": resumed,
        "lines_written": num_lines,
        "journals_left": len(left),
        "texts_per_s": round((NUM_DIFFERENT - resumed) / second["run_s"], 1),
        "second": second,
        "index": asyncio.run(index_times()),
    }


def main() -> None:
    """Measure and record; with a folder and a share, be the process that is killed."""
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(one_call(Path(sys.argv[1]), float(sys.argv[2])))))
        return
    record = measure()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "taxonomy_scale.json").write_text(json.dumps(record, indent=1) + "\n")
    print({key: value for key, value in record.items() if key != "second"})


if __name__ == "__main__":
    main()
