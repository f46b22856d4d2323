"""Error bodies, one form a dialect: what a client of that dialect shows to its user.

The header `X-SIE-Error-Code` is the same in all of them, and the status in all but TEI's.
"""

import secrets
from collections.abc import Callable
from typing import Any, Literal

import pydantic

from sie_mcp.errors import InferenceError, SieError, error_classes
from sie_mcp.wire import ItemError

ErrorBody = Callable[[SieError], dict[str, Any]]

_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_TEI_TYPES = {429: "Overloaded", 502: "Backend", 504: "Overloaded", 507: "Backend"}
_TEI_CODES = {
    "QUEUE_FULL": "Overloaded",
    "RESOURCE_EXHAUSTED": "Overloaded",
    "INPUT_TOO_LONG": "Validation",
}


# Wrong input is 422 there, what fails behind the door 424; too large a body 413, as here.
_TEI_STATUSES = {400: 422, 500: 424, 502: 424, 507: 424}


class NativeDetail(pydantic.BaseModel):
    """Our code and what would work."""

    code: str
    message: str


class NativeError(pydantic.BaseModel):
    """The error of /v1/encode, score, extract and models, as SIE's SDK reads it."""

    error: NativeDetail


class OpenAIDetail(pydantic.BaseModel):
    """OpenAI's fields; `code` is ours."""

    message: str
    type: str
    param: str | None = None
    code: str


class OpenAIError(pydantic.BaseModel):
    """The error of /v1/embeddings."""

    error: OpenAIDetail


class CohereError(pydantic.BaseModel):
    """The error of Cohere's routes."""

    id: str
    message: str


class RerankError(pydantic.BaseModel):
    """The error of /v1/rerank, where clients of Cohere, of Jina and our own look."""

    message: str
    detail: str
    error: NativeDetail


class TeiError(pydantic.BaseModel):
    """The error of TEI's routes."""

    error: str
    error_type: Literal["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"]


class VllmDetail(pydantic.BaseModel):
    """vLLM's fields; `code` is the status."""

    message: str
    type: str
    param: str | None = None
    code: int


class VllmError(pydantic.BaseModel):
    """The error of /score and /pooling."""

    error: VllmDetail


def native(error: SieError) -> dict[str, Any]:
    """Return our own form."""
    return {"error": {"code": error.code, "message": str(error)}}


def openai(error: SieError) -> dict[str, Any]:
    """Return OpenAI's form."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    detail = {
        "message": str(error),
        "type": _OPENAI_TYPES.get(error.status, kind),
        "param": None,
        "code": error.code,
    }
    return {"error": detail}


def cohere(error: SieError) -> dict[str, Any]:
    """Return Cohere's form."""
    return {"id": secrets.token_hex(8), "message": str(error)}


def rerank(error: SieError) -> dict[str, Any]:
    """Return the form of a route that three dialects share."""
    return {"message": str(error), "detail": str(error), **native(error)}


def tei(error: SieError) -> dict[str, Any]:
    """Return TEI's form."""
    fallback = "Validation" if error.status < 500 else "Unhealthy"
    if error.status == 500:
        fallback = "Backend"
    kind = _TEI_CODES.get(error.code) or _TEI_TYPES.get(error.status, fallback)
    return {"error": str(error), "error_type": kind}


def tei_status(error: SieError) -> int:
    """Return the status that TEI gives to such an error, and its clients look for."""
    if error.code in ("QUEUE_FULL", "RESOURCE_EXHAUSTED"):
        return 429
    return _TEI_STATUSES.get(error.status, error.status)


def vllm(error: SieError) -> dict[str, Any]:
    """Return vLLM's form."""
    kind = "InternalServerError" if error.status >= 500 else "BadRequestError"
    detail = {
        "message": str(error),
        "type": "NotFoundError" if error.status == 404 else kind,
        "param": None,
        "code": error.status,
    }
    return {"error": detail}


def item_failure(where: str, error: ItemError | None) -> SieError:
    """Return one item's error as the whole request's, for shapes with no place for it."""
    found = error or ItemError(code=InferenceError.code, message="no result")
    cls = error_classes().get(found.code, InferenceError)
    return cls(f"{where}: {found.message}")
