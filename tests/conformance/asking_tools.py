"""Tools that the conformance scenarios call to be asked back: for a form, a sample, the roots.

The question is the answer of the call, which the client repeats with what it got. The older era's
questions, requests of the server's own, need a session that our server does not have.
"""

from typing import Any

from mcp import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from sie_mcp.tools.context import ToolCall
from tests.conformance.content_tools import said

Asked = CallToolResult | InputRequiredResult
MAX_TOKENS = 100


def form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    """Ask the user to fill in one field."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str) -> CreateMessageRequest:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    params = CreateMessageRequestParams(messages=[message], max_tokens=MAX_TOKENS)
    return CreateMessageRequest(params=params)


def answered(ctx: ToolCall, *names: str) -> bool:
    """Say whether all of these questions were answered."""
    return set(names) <= set(ctx.input_responses or {})


def filled_in(ctx: ToolCall, name: str) -> dict[str, Any]:
    """Return what the user filled in."""
    answer = (ctx.input_responses or {})[name]
    assert isinstance(answer, ElicitResult)
    return answer.content or {}


async def test_input_required_result_elicitation(ctx: ToolCall) -> Asked:
    """Greet the user by name."""
    if not answered(ctx, "user_name"):
        return InputRequiredResult(input_requests={"user_name": form("What is your name?", "name")})
    return said(f"Hello, {filled_in(ctx, 'user_name')['name']}!")


async def test_input_required_result_sampling(ctx: ToolCall) -> Asked:
    """Have the client's model answer."""
    question = sample("What is the capital of France?")
    if not answered(ctx, "capital_question"):
        return InputRequiredResult(input_requests={"capital_question": question})
    return said("The model has answered.")


async def test_input_required_result_list_roots(ctx: ToolCall) -> Asked:
    """Ask for the client's folders."""
    if not answered(ctx, "client_roots"):
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return said("The folders are known.")


async def test_input_required_result_request_state(ctx: ToolCall) -> Asked:
    """Hand the client something to bring back unread."""
    if not answered(ctx, "confirm"):
        question = form("Please confirm", "ok", "boolean")
        return InputRequiredResult(input_requests={"confirm": question}, request_state="asked")
    return said("state-ok" if ctx.request_state == "asked" else "the state is lost")


async def test_input_required_result_tampered_state(ctx: ToolCall) -> Asked:
    """Refuse a state that is not the one handed out."""
    return await test_input_required_result_request_state(ctx)


async def test_input_required_result_multiple_inputs(ctx: ToolCall) -> Asked:
    """Ask three things at once."""
    if answered(ctx, "user_name", "greeting", "client_roots"):
        return said("All three are answered.")
    return InputRequiredResult(
        input_requests={
            "user_name": form("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        },
        request_state="three",
    )


async def test_input_required_result_multi_round(ctx: ToolCall) -> Asked:
    """Ask a second question after the first."""
    if ctx.request_state == "color" and answered(ctx, "step2"):
        return said("Both steps are done.")
    if ctx.request_state == "name" and answered(ctx, "step1"):
        second = form("Step 2: What is your favorite color?", "color")
        return InputRequiredResult(input_requests={"step2": second}, request_state="color")
    first = form("Step 1: What is your name?", "name")
    return InputRequiredResult(input_requests={"step1": first}, request_state="name")


async def test_input_required_result_capabilities(ctx: ToolCall) -> Asked:
    """Ask only what the client said that it can answer."""
    can = ctx.client_capabilities or ClientCapabilities()
    questions = {
        "sample": sample("Generate a greeting") if can.sampling else None,
        "name": form("What is your name?", "name") if can.elicitation else None,
    }
    asked = {name: question for name, question in questions.items() if question}
    return InputRequiredResult(input_requests=asked) if asked else said("Nothing can be asked.")


async def test_streaming_elicitation(ctx: ToolCall) -> Asked:
    """Report progress before a question, on the same stream."""
    await ctx.report_progress(1, 2, "about to ask")
    return await test_input_required_result_elicitation(ctx)


async def test_missing_capability(ctx: ToolCall) -> CallToolResult:
    """Refuse a client that has no model to ask."""
    can = ctx.client_capabilities
    if can is not None and can.sampling:
        return said("The client can sample.")
    needed = MissingRequiredClientCapabilityErrorData(
        required_capabilities=ClientCapabilities(sampling=SamplingCapability())
    )
    raise MCPError(
        code=MISSING_REQUIRED_CLIENT_CAPABILITY,
        message="this tool asks the client's model",
        data=needed.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


ASKING_TOOLS = (
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    test_missing_capability,
)
