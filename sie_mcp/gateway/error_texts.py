"""Our errors as texts that a model can act on."""

import json

from mcp.types import CallToolResult, TextContent

from sie_mcp.errors import DeadlineExceeded, ModelLoading, SieError

# A message can repeat what the caller gave; its end says what would work.
MAX_CHARS = 1_200
_END_CHARS = 400


def text_for_model(error: SieError) -> str:
    """Say what went wrong and whether calling again makes sense."""
    text = _shortened(str(error))
    if error.retryable and not isinstance(error, DeadlineExceeded):
        seconds = max(round(error.retry_after_s or 1), 1)
        text += f" (nothing is wrong with your call: repeat it in {seconds} s)"
    return text


def _shortened(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[: MAX_CHARS - _END_CHARS]} […] {text[-_END_CHARS:]}"


def loading_result(error: ModelLoading) -> CallToolResult:
    """Answer that a model is still loading: an error for clients, an instruction for the model."""
    retry_after_s = max(round(error.retry_after_s or 2.0), 1)
    body = {
        "status": "loading",
        "retry_after_s": retry_after_s,
        "message": f"{error}. Nothing is wrong: repeat the same call in {retry_after_s} s.",
    }
    text = json.dumps(body, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=body, is_error=True)
