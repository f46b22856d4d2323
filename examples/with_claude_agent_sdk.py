"""Claude Agent SDK: the task with Claude, and with no tools but the server's.

pip install claude-agent-sdk
MODEL=claude-sonnet-5 ANTHROPIC_API_KEY=... python -m examples.with_claude_agent_sdk
"""

import asyncio
import os

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from examples.task import TASK, Server


async def classify(model: str, server: Server) -> str:
    """Give the task to a model with the server's tools; return its report.

    Raises:
        RuntimeError: the run ended without one.
    """
    options = ClaudeAgentOptions(
        model=model,
        mcp_servers={
            "sie": {"command": server.command, "args": server.args, "env": server.env},
        },
        strict_mcp_config=True,  # no servers but this one
        tools=[],  # none of the built-in ones
        allowed_tools=["mcp__sie"],  # all of this server, without asking
        setting_sources=[],  # nothing of the user's own settings
    )
    async for message in query(prompt=TASK, options=options):
        if isinstance(message, ResultMessage):
            if message.is_error:
                raise RuntimeError(f"the run ended with {message.subtype}: {message.result}")
            return message.result or ""
    raise RuntimeError("the run ended without a result")


if __name__ == "__main__":
    print(asyncio.run(classify(os.environ["MODEL"], Server())))
