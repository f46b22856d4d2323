"""Runs the OpenAI Agents example with a scripted model of its own interface."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from examples.with_openai_agents import classify
from tests.examples.script import Call, next_move, server_given


class Scripted(Model):
    """Plays the model, in the items of the Responses API."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        """Answer with a call or a text."""
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        (task,) = [item["content"] for item in items if item.get("role") == "user"]
        results = [one["output"] for one in items if one.get("type") == "function_call_output"]
        move = next_move(task, [tool.name for tool in tools], results)
        return ModelResponse(output=[_item(move, len(results))], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Refuse: the example does not stream."""
        raise NotImplementedError


def _item(move: Call | str, number: int) -> ResponseFunctionToolCall | ResponseOutputMessage:
    if isinstance(move, Call):
        return ResponseFunctionToolCall(
            type="function_call",
            call_id=f"call-{number}",
            name=move.name,
            arguments=json.dumps(move.arguments),
        )
    text = ResponseOutputText(type="output_text", text=move, annotations=[])
    return ResponseOutputMessage(
        id="message", type="message", role="assistant", status="completed", content=[text]
    )


if __name__ == "__main__":
    set_tracing_disabled(True)
    print(asyncio.run(classify(Scripted(), server_given())))
