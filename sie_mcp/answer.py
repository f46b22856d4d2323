"""From a worker's HTTP answer to a typed body or a typed error.

The other end may be a worker of another version, a gateway, or an ingress that knows nothing of us:
whatever it sends becomes one of our errors, never a parser's.
"""

from typing import TypeVar

import httpx2
import pydantic

from sie_mcp import wire
from sie_mcp.codec import decode_body, media_type_of
from sie_mcp.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    InvalidInput,
    RateLimited,
    SieError,
    WorkerUnavailable,
    error_classes,
)
from sie_mcp.wire.encode import REVISION_HEADER

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)

# What a status means where no error code of ours came with it.
_BY_STATUS: dict[int, type[SieError]] = {
    413: BodyTooLarge,
    429: RateLimited,
    502: WorkerUnavailable,
    503: WorkerUnavailable,
    504: DeadlineExceeded,
}


def read_answer(response: httpx2.Response, body_type: type[BodyT]) -> BodyT:
    """Return the answer's body.

    Raises:
        SieError: the answer is an error (rebuilt with its own type), or cannot be read.
    """
    if response.status_code >= 400:
        raise rebuild_error(response)
    try:
        media_type = media_type_of(response.headers.get("Content-Type"))
        body = body_type.model_validate(decode_body(response.content, media_type))
    except (InvalidInput, pydantic.ValidationError) as error:
        raise SieError(
            f"the worker's answer cannot be read as {body_type.__name__}; "
            "is it a sie-mcp worker of this version?"
        ) from error
    if isinstance(body, wire.EncodeResponse):
        body.revision = response.headers.get(REVISION_HEADER)
    return body


def is_workers_own(response: httpx2.Response) -> bool:
    """Whether a worker of ours answered, rather than something in front of it."""
    return response.is_success or "X-SIE-Error-Code" in response.headers


def rebuild_error(response: httpx2.Response) -> SieError:
    """Return the error of an answer that was read whole, as its own type where it names one."""
    envelope = _envelope(response)
    code = response.headers.get("X-SIE-Error-Code") or envelope.get("code", "")
    status = response.status_code
    cls = error_classes().get(code) or _BY_STATUS.get(status)
    if cls is None:
        cls = InvalidInput if status < 500 else SieError
    message = envelope.get("message") or f"the worker answered with status {status}"
    return cls(message, retry_after_s=_seconds(response.headers.get("Retry-After")))


def _envelope(response: httpx2.Response) -> dict[str, str]:
    """Read {"error": {"code", "message"}}; nothing where the body is something else."""
    try:
        data = decode_body(response.content, media_type_of(response.headers.get("Content-Type")))
    except InvalidInput:
        return {}
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return {}
    return {name: value for name, value in error.items() if isinstance(value, str)}


def _seconds(retry_after: str | None) -> float | None:
    """Read Retry-After; a date, which only an ingress would send, counts as nothing."""
    try:
        return max(float(retry_after), 0.0) if retry_after else None
    except ValueError:
        return None
