"""The id of the request that something is done for: in headers, answers and every line of a log."""

import logging
import re
import uuid
from contextvars import ContextVar, Token

HEADER = "X-Request-Id"
_GOOD = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_CURRENT: ContextVar[str] = ContextVar("request_id", default="")


def take(given: str | None) -> Token[str]:
    """Work for a request from now on: by the id that came with it, else by a new one."""
    is_good = given is not None and _GOOD.fullmatch(given) is not None
    return _CURRENT.set(given if is_good and given is not None else uuid.uuid4().hex)


def leave(token: Token[str]) -> None:
    """Work for it no more."""
    _CURRENT.reset(token)


def current() -> str:
    """Return the id, empty outside of a request."""
    return _CURRENT.get()


def note(record: logging.LogRecord) -> bool:
    """Give a line of a log its `request`; a filter for handlers."""
    record.request = f" request={found}" if (found := current()) else ""
    return True
