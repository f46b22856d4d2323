"""What every example agent is told, and how it starts the server. Knows no framework."""

import os
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent

TASK = """\
Classify the products in products.csv (the column title) into the departments of departments.txt.
Have the result written to classified.csv, or another name if that one is taken. Do not read the
rows. Then classify the least sure ones once more by themselves, and look at the alternatives.

Report how many products there are, how many of each top department, the file, and the rows that a
person should look at, each with the two departments it could belong to."""


@dataclass(frozen=True)
class Server:
    """A command that speaks MCP over stdio; by default it may read and write in this folder only.

    Clients start servers with few variables, so the settings are handed on by name.
    """

    command: str = "sie-mcp"
    args: list[str] = field(
        default_factory=lambda: ["stdio", "--tools", "taxonomy", "--allow", str(FOLDER)]
    )
    env: dict[str, str] = field(default_factory=lambda: _settings())


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SIE_MCP_")}
