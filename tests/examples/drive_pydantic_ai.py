"""Runs the pydantic-ai example with a scripted model: its `FunctionModel`."""

import asyncio

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.with_pydantic_ai import classify
from tests.examples.script import Call, next_move, server_given


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Play the model."""
    parts = [part for message in messages for part in message.parts]
    (task,) = [str(part.content) for part in parts if isinstance(part, UserPromptPart)]
    results = [part.content for part in parts if isinstance(part, ToolReturnPart)]
    move = next_move(task, [tool.name for tool in info.function_tools], results)
    if isinstance(move, Call):
        return ModelResponse(parts=[ToolCallPart(move.name, move.arguments)])
    return ModelResponse(parts=[TextPart(move)])


if __name__ == "__main__":
    print(asyncio.run(classify(FunctionModel(scripted), server_given())))
