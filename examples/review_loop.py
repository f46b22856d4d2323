"""Classify a file, have a model check the unsure rows, give the corrections back, classify again.

pip install 'sie-mcp[engine]' 'pydantic-ai-slim[anthropic]'
MODEL=anthropic:claude-sonnet-5 ANTHROPIC_API_KEY=... python -m examples.review_loop

The steps are fixed and the model only chooses among the categories it is shown, so that a small one
will do. Any client that can call tools fits `call`, anything that can choose fits `choose`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.task import FOLDER, Server

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
# A text, and the categories it could be in; "" where none of them is right.
Choose = Callable[[str, list[str]], Awaitable[str]]

SURE_ENOUGH = 0.8
MAX_REVIEWED = 100
EXAMPLES = "corrections.csv"
ASK = "Which category is right for this product? Answer with its number, or 0 if none is.\n\n"


@dataclass(frozen=True)
class Round:
    """One run over the catalogue: what was written, how unsure it was, how many were reviewed."""

    output_path: str
    mean_unsure: float
    num_unsure: int
    num_reviewed: int


async def improve(
    call: Call,
    choose: Choose,
    folder: Path,
    *,
    source: Mapping[str, Any],
    taxonomy: str,
    rounds: int = 2,
) -> list[Round]:
    """Classify, review and learn; `source` is the catalogue's path and columns.

    Rows that were right are stored too: examples that are only mistakes would teach less.
    """
    done = []
    for number in range(1, rounds + 1):
        output = f"classified-{number}.csv"
        asked = {**source, "taxonomy": taxonomy, "output_path": output}
        if (folder / EXAMPLES).exists():
            asked["examples"] = EXAMPLES
        written = await call("classify_taxonomy", asked)
        unsure = await call(
            "review_uncertain",
            {"path": output, "max_confidence": SURE_ENOUGH, "limit": MAX_REVIEWED},
        )
        rows = unsure["results"]
        corrected = []
        if number < rounds:
            for row in rows:
                listed = list(dict.fromkeys([row["path"], *row.get("alternatives", [])]))
                if category := await choose(row["text"], listed):
                    corrected.append({"index": row["index"], "category": category})
        if corrected:
            decided = {"path": output, "corrections": corrected, "taxonomy": taxonomy}
            await call("store_corrections", {**decided, "examples": EXAMPLES})
        mean = sum(row["confidence"] for row in rows) / len(rows) if rows else 1.0
        done.append(Round(written["output_path"], round(mean, 3), len(rows), len(corrected)))
    return done


async def main(model: str) -> None:
    """Do it with a model of pydantic-ai over the server's stdio."""
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415
    from pydantic_ai import Agent  # noqa: PLC0415

    agent = Agent(model, output_type=int)

    async def choose(text: str, categories: list[str]) -> str:
        listed = "\n".join(f"{number}. {path}" for number, path in enumerate(categories, 1))
        number = (await agent.run(f"{ASK}{text}\n\n{listed}")).output
        return categories[number - 1] if 0 < number <= len(categories) else ""

    own = Server()
    parameters = StdioServerParameters(command=own.command, args=own.args, env=own.env)
    async with Client(stdio_client(parameters)) as client:

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            answer = await client.call_tool(name, arguments)
            if answer.is_error or answer.structured_content is None:
                raise RuntimeError(str(answer.content))
            return answer.structured_content

        source = {"path": "products.csv", "columns": ["title"]}
        for one in await improve(call, choose, FOLDER, source=source, taxonomy="departments.txt"):
            print(one)


if __name__ == "__main__":
    asyncio.run(main(os.environ["MODEL"]))
