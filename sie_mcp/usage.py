"""What a tool call had the worker do, counted while it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Usage:
    """Items sent and tokens run."""

    items: int = 0
    tokens: int = 0


_CURRENT: ContextVar[Usage | None] = ContextVar("usage", default=None)


@contextmanager
def measured() -> Iterator[Usage]:
    """Count what is done in the block, by all its tasks."""
    usage = Usage()
    token = _CURRENT.set(usage)
    try:
        yield usage
    finally:
        _CURRENT.reset(token)


def add(items: int, tokens: int) -> None:
    """Count an answer of the worker."""
    usage = _CURRENT.get()
    if usage is not None:
        usage.items += items
        usage.tokens += tokens
