"""A session with the MCP server, in memory, over the local worker; it counts what an agent reads.

Tokens are those of o200k_base (OpenAI, 2024), from `bpe-openai`, which holds the vocabulary.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpe_openai
from mcp import Client

from evals.local import local_client
from sie_mcp.config import Config, load_config
from sie_mcp.gateway.server import build_server

TOKENIZER = "o200k_base"
LIMIT_S = 1_800.0
_ENCODING = bpe_openai.get_encoding(TOKENIZER)


def count_tokens(text: str) -> int:
    """Return how many tokens a model reads in a text."""
    return len(_ENCODING.encode_ordinary(text))


@dataclass
class Agent:
    """Calls tools, and knows what that costs.

    Attributes:
        definitions: Tokens of each tool's name, description and schema.
        instructions: Tokens of the server's instructions.
        used: The tools called since `start`.
        tokens: Of all arguments and results since `start`.
    """

    session: Client
    definitions: dict[str, int]
    instructions: int
    used: set[str] = field(default_factory=set)
    tokens: int = 0

    def start(self) -> None:
        """Begin to count anew."""
        self.used, self.tokens = set(), 0

    @property
    def cost(self) -> int:
        """What was read since `start`, the definitions of the tools called included."""
        return self.tokens + sum(self.definitions[name] for name in self.used)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its structured result."""
        text = await self.text(tool, **arguments)
        found: dict[str, Any] = json.loads(text)
        return found

    async def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool; return the text that the agent reads.

        Raises:
            RuntimeError: the tool refused.
        """
        result = await self.session.call_tool(tool, arguments, progress_callback=_ignore)
        (block,) = result.content
        assert block.type == "text"
        if result.is_error:
            raise RuntimeError(block.text)
        self.used.add(tool)
        self.tokens += count_tokens(json.dumps({"name": tool, "arguments": arguments}))
        self.tokens += count_tokens(block.text)
        return block.text


@asynccontextmanager
async def agent(folder: Path | None = None) -> AsyncIterator[Agent]:
    """Open a session whose tools may read one folder; the index lies beside it."""
    config = load_config()
    if folder is not None:
        data = config.model_dump() | {
            "allow": (folder,),
            "index_dir": f"{folder}.index",
            "tool_timeout_s": LIMIT_S,
        }
        config = Config(**data)
    async with local_client() as client:
        server = build_server(client, config, files_allowed=True)
        async with Client(server, read_timeout_seconds=LIMIT_S) as session:
            tools = (await session.list_tools()).tools
            definitions = {
                tool.name: count_tokens(
                    json.dumps(
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "input_schema": tool.input_schema,
                        }
                    )
                )
                for tool in tools
            }
            yield Agent(session, definitions, count_tokens(session.instructions or ""))


async def _ignore(done: float, total: float | None, message: str | None) -> None:
    return
