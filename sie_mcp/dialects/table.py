"""Every route of every dialect, by its path, and the form of each path's errors."""

from typing import Any

from sie_mcp.dialects import cohere, errors, openai, rerank, tei, tei_labels, tei_tokens, vllm
from sie_mcp.dialects.errors import ErrorBody
from sie_mcp.dialects.operation import Operation
from sie_mcp.errors import SieError

OPERATIONS: tuple[Operation, ...] = (
    *openai.OPERATIONS,
    *rerank.OPERATIONS,
    *cohere.OPERATIONS,
    *tei.OPERATIONS,
    *tei_labels.OPERATIONS,
    *vllm.OPERATIONS,
)
_ERRORS: dict[str, ErrorBody] = {
    **{path: one.error[1] for one in OPERATIONS for path in one.paths},
    **dict.fromkeys(tei_tokens.PATHS, errors.tei),
}
# Those that name their model in the body, or in a header.
MODEL_IN_BODY = frozenset(_ERRORS)
# Those outside /v1, which a gateway hands on as well.
OTHER_PATHS = tuple(sorted(path for path in _ERRORS if not path.startswith("/v1/")))


def error_body(path: str, error: SieError) -> dict[str, Any]:
    """Return an error's body in the dialect of the path."""
    return _ERRORS.get(path, errors.native)(error)


def status_of(path: str, error: SieError) -> int:
    """Return an error's status in the dialect of the path."""
    return errors.tei_status(error) if _ERRORS.get(path) is errors.tei else error.status
