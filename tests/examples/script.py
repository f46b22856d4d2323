"""What the scripted model does in every framework: the example's task, from what the tools say.

Standard library only: it runs where the frameworks are installed and the project is not.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

from examples.task import TASK, Server

TOOL = "classify_taxonomy"
NUM_LOOKED_AT = 2


@dataclass(frozen=True)
class Call:
    """The model wants a tool."""

    name: str
    arguments: dict[str, Any]


def next_move(task: str, offered: list[str], results: list[Any]) -> Call | str:
    """Return the next call, or the report once there is nothing to ask any more.

    Args:
        task: What the user said.
        offered: The names of the tools, with whatever the framework put before them.
        results: What came back of the calls so far, as the framework hands it to a model.
    """
    assert task == TASK
    (name,) = [one for one in offered if one.endswith(TOOL)]
    read = [_read(result) for result in results]
    if not read:
        source = {"path": "products.csv", "columns": ["title"]}
        return Call(
            name, {**source, "taxonomy": "departments.txt", "output_path": "classified.csv"}
        )
    unsure = read[0]["least_sure"][:NUM_LOOKED_AT]
    if len(read) == 1:
        texts = [{"id": str(row["index"]), "text": row["text"]} for row in unsure]
        return Call(name, {"texts": texts, "taxonomy": "departments.txt", "top_k": 2})
    return _report(read[0], read[1])


def server_given() -> Server:
    """Return the server that the test wants the example to use."""
    return Server(**json.loads(sys.argv[1]))


def _report(summary: dict[str, Any], looked_at: dict[str, Any]) -> str:
    rows = [
        f"row {row['id']}: {row['path']} or {row['alternatives'][0]['path']}"
        for row in looked_at["results"]
    ]
    return json.dumps(
        {
            "count": summary["count"],
            "counts": summary["counts"],
            "file": summary["output_path"],
            "look_at": rows,
        }
    )


def _read(result: Any) -> dict[str, Any]:
    """Find the tool's JSON in whatever a framework wraps it in, and whatever it adds behind."""
    if isinstance(result, str):
        result, _ = json.JSONDecoder().raw_decode(result)
    if isinstance(result, list):
        (block,) = result
        return _read(block)
    if str(result.get("type", "")).endswith("text"):
        return _read(result["text"])
    assert "model" in result, result
    return dict(result)
