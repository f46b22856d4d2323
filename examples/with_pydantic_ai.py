"""pydantic-ai: the task with any model that it knows.

pip install 'pydantic-ai-slim[mcp,anthropic,openai]'
MODEL=anthropic:claude-sonnet-5 ANTHROPIC_API_KEY=... python -m examples.with_pydantic_ai
"""

import asyncio
import os

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models import Model

from examples.task import TASK, Server


async def classify(model: Model | str, server: Server) -> str:
    """Give the task to a model with the server's tools; return its report."""
    tools = MCPToolset(
        StdioTransport(server.command, server.args, server.env),
        include_instructions=True,  # when to use which tool; off by default
        init_timeout=30,  # 5 s by default
    )
    async with Agent(model, toolsets=[tools]) as agent:
        return (await agent.run(TASK)).output


if __name__ == "__main__":
    print(asyncio.run(classify(os.environ["MODEL"], Server())))
