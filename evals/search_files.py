"""How fast and how well `search_files` answers over a folder of 2,000 small files, over stdio.

Run `python -m evals.search_files`; it needs `sie-mcp[search]`. The folder holds 240 paragraphs of
XQuAD, whose questions are asked, among Cranfield abstracts and news. A hit is the right file.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from rich.console import Console
from rich.table import Table

from evals.datasets import Retrieval, read_jsonl, read_retrieval

NUM_FILES, NUM_QUESTIONS = 2_000, 40
NEWS_LINES = 4
BYTES_PER_TOKEN = 4
LIMIT_S = 1_800.0
RESULTS = Path(__file__).parent / "results" / "search_files.json"


@dataclass(frozen=True, slots=True)
class Timing:
    """Searches over an unchanged folder, after the first; the right file among the first n."""

    rerank: bool
    num_queries: int
    median_s: float
    p90_s: float
    hit_at_1: float
    hit_at_5: float
    median_tokens: float


class Agent:
    """A session that knows how long its last call took and what was read."""

    def __init__(self, session: Client) -> None:
        self._session = session
        self.seconds = 0.0
        self.tokens = 0

    async def search(self, query: str, **arguments: Any) -> dict[str, Any]:
        """Search as an agent that shows progress does."""
        started = time.perf_counter()
        result = await self._session.call_tool(
            "search_files", {"query": query, **arguments}, progress_callback=_ignore
        )
        self.seconds = time.perf_counter() - started
        if result.is_error or result.structured_content is None:
            raise RuntimeError(result.content[0].text)
        self.tokens = len(result.content[0].text.encode()) // BYTES_PER_TOKEN
        return result.structured_content


def write_folder(folder: Path, asked: Retrieval) -> int:
    """Write the files, as old as files usually are; return their bytes."""
    others = read_retrieval("cranfield").documents
    news = [" ".join(sentence["tokens"]) for sentence in read_jsonl("wikigold.jsonl")]
    others += ["\n".join(news[n : n + NEWS_LINES]) for n in range(0, len(news), NEWS_LINES)]
    texts = dict(zip(asked.document_ids, asked.documents, strict=True))
    texts |= {f"other{n}": text for n, text in enumerate(others[: NUM_FILES - len(texts)])}
    hour_ago = time.time() - 3_600
    for number, (name, text) in enumerate(texts.items()):
        file = folder / f"{number % 20:02}" / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        os.utime(file, (hour_ago, hour_ago))
    return sum(len(text.encode()) for text in texts.values())


async def measure() -> dict[str, Any]:
    """Index a folder, then ask."""
    asked = read_retrieval("xquad_en")
    step = len(asked.queries) // NUM_QUESTIONS
    questions = list(zip(asked.query_ids, asked.queries, strict=True))[::step][:NUM_QUESTIONS]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "files"
        folder.mkdir()
        num_bytes = write_folder(folder, asked)
        settings = {"SIE_MCP_ALLOW": str(folder), "SIE_MCP_INDEX_DIR": f"{place}/index"}
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "sie_mcp", "stdio"],
            env=dict(os.environ) | settings,
        )
        async with Client(stdio_client(server), read_timeout_seconds=LIMIT_S) as session:
            agent = Agent(session)
            first = await agent.search(questions[0][1])
            first_s = agent.seconds
            await agent.search(questions[1][1])
            second_s = agent.seconds
            timings = [await _ask(agent, asked, questions, rerank) for rerank in (True, False)]
            (folder / "00" / "p0.md").write_text("The Panthers' defence, once more.")
            await agent.search(questions[2][1])
            changed_s = agent.seconds
        index_bytes = sum(file.stat().st_size for file in Path(place).rglob("index/**/*.*"))
    return {
        "command": "python -m evals.search_files",
        "models": [first["model"], first["score_model"]],
        "lancedb": version("lancedb"),
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[1], 1),
        "num_files": first["num_files"],
        "num_bytes": num_bytes,
        "index_bytes": index_bytes,
        "first_search_s": round(first_s, 2),
        "second_search_s": round(second_s, 3),
        "after_one_change_s": round(changed_s, 3),
        "searches": [asdict(timing) for timing in timings],
    }


async def _ask(
    agent: Agent, asked: Retrieval, questions: list[tuple[str, str]], rerank: bool
) -> Timing:
    seconds, tokens, places = [], [], []
    for query_id, query in questions:
        found = await agent.search(query, rerank=rerank)
        seconds.append(agent.seconds)
        tokens.append(agent.tokens)
        files = list(dict.fromkeys(Path(hit["path"]).stem for hit in found["results"]))
        right = asked.relevant[query_id]
        places.append(next((n for n, file in enumerate(files, 1) if file in right), 99))
    return Timing(
        rerank=rerank,
        num_queries=len(questions),
        median_s=round(statistics.median(seconds), 3),
        p90_s=round(sorted(seconds)[len(seconds) * 9 // 10], 3),
        hit_at_1=sum(place == 1 for place in places) / len(places),
        hit_at_5=sum(place <= 5 for place in places) / len(places),
        median_tokens=statistics.median(tokens),
    )


async def _ignore(done: float, total: float | None, message: str | None) -> None:
    return


def main() -> None:
    """Print a table; write the figures with --save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    figures = asyncio.run(measure())
    table = Table("what", "value", title="search_files over 2,000 files")
    for name, value in figures.items():
        table.add_row(name, json.dumps(value))
    Console(width=160).print(table)
    if given.save:
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
