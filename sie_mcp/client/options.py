"""How a program's client cuts, sends, waits and retries. Plain values; nothing here sends."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sie_mcp.finding import Progress

# Called with (done, total, message): how far a list is, or what is being waited for.
OnProgress = Callable[[int, int, str], Awaitable[None] | None]

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a client; the defaults suit a gateway on the same network.

    Attributes:
        timeout_s: Longest wait for one answer, in seconds; `deadline_s` of a call is for all of it.
        load_wait_s: How long a call waits for a model to load, or a sleeping pool to wake, before
            it raises ModelLoading. A wait that some news comes of is told to `on_progress`.
        longest_retry_after_s: A Retry-After up to this is waited out; what asks for more is raised.
        max_items: Items of one request; longer lists are cut.
        max_request_bytes: Of the texts or images of one request, unless it has one item only.
        max_concurrency: Requests that the client has open at a time, over all its calls.
    """

    timeout_s: float = 600.0
    load_wait_s: float = 300.0
    longest_retry_after_s: float = 60.0
    max_items: int = 128
    max_request_bytes: int = 16_000_000
    max_concurrency: int = 4

    def __post_init__(self) -> None:
        """Refuse what no call could work with.

        Raises:
            ValueError: a value is not positive; names it.
        """
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be over 0")


def awaited(on_progress: OnProgress | None) -> Progress | None:
    """Return a callback that may be a plain function as the one that is awaited."""
    if on_progress is None:
        return None

    async def tell(done: int, total: int, message: str) -> None:
        told = on_progress(done, total, message)
        if inspect.isawaitable(told):
            await told

    return tell
