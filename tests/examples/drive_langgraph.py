"""Runs the LangGraph example with a scripted chat model."""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from examples.with_langgraph import classify
from tests.examples.script import Call, next_move, server_given


class Scripted(BaseChatModel):
    """Plays the model; knows the tools that it was bound to."""

    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        """Return the same model with tools."""
        return Scripted(offered=tuple(tool.name for tool in tools if isinstance(tool, BaseTool)))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        (task,) = [str(one.content) for one in messages if isinstance(one, HumanMessage)]
        results = [one.content for one in messages if isinstance(one, ToolMessage)]
        move = next_move(task, list(self.offered), results)
        if isinstance(move, Call):
            call = {"name": move.name, "args": move.arguments, "id": f"call-{len(results)}"}
            message = AIMessage(content="", tool_calls=[call])
        else:
            message = AIMessage(content=move)
        return ChatResult(generations=[ChatGeneration(message=message)])


if __name__ == "__main__":
    print(asyncio.run(classify(Scripted(), server_given())))
