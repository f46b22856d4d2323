"""LangGraph: the task with any chat model of LangChain's.

    pip install langgraph langchain langchain-mcp-adapters langchain-anthropic
    MODEL=anthropic:claude-sonnet-5 ANTHROPIC_API_KEY=... python -m examples.with_langgraph

The adapters need `mcp` below 2 and the server 2 or newer: install it elsewhere (`uv tool install
'sie-mcp[engine]'`).
"""

import asyncio
import os

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from examples.task import TASK, Server


async def classify(model: BaseChatModel | str, server: Server) -> str:
    """Give the task to a model with the server's tools; return its report."""
    connection = {"command": server.command, "args": server.args, "env": server.env}
    client = MultiServerMCPClient({"sie": {"transport": "stdio", **connection}})
    # Without a session of its own, each tool call would start a server.
    async with client.session("sie") as session:
        graph = create_agent(model, await load_mcp_tools(session))
        state = await graph.ainvoke({"messages": [{"role": "user", "content": TASK}]})
    return str(state["messages"][-1].text)


if __name__ == "__main__":
    print(asyncio.run(classify(os.environ["MODEL"], Server())))
