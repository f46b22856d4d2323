"""OpenAI Agents SDK: the task with a model of OpenAI's, or of any server like theirs.

pip install openai-agents
MODEL=gpt-5 OPENAI_API_KEY=... python -m examples.with_openai_agents
"""

import asyncio
import os

from agents import Agent, Model, Runner
from agents.mcp import MCPServerStdio

from examples.task import TASK, Server


async def classify(model: Model | str, server: Server) -> str:
    """Give the task to a model with the server's tools; return its report."""
    async with MCPServerStdio(
        {"command": server.command, "args": server.args, "env": server.env},
        client_session_timeout_seconds=300,  # 5 s by default, less than a model takes to load
        cache_tools_list=True,  # the list stays the same while the server lives
    ) as tools:
        agent = Agent("classifier", model=model, mcp_servers=[tools])
        return str((await Runner.run(agent, TASK)).final_output)


if __name__ == "__main__":
    print(asyncio.run(classify(os.environ["MODEL"], Server())))
