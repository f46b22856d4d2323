"""A request's body at the gateway: read whole where it is needed, else passed on as it comes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from sie_mcp.access.allowance import allowance_of
from sie_mcp.compression import unpack
from sie_mcp.errors import BodyTooLarge, SieError, WorkerUnavailable

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits of a body, in bytes.

    Attributes:
        kept: What is larger is passed on where nothing here has to read it.
    """

    max: int
    kept: int


class PassedOn:
    """A body that is sent on while it comes: once, for no more of it is kept than a piece.

    Attributes:
        num_bytes: As its header says; None: its end will show.
        has_begun: Some of it was sent, so that it cannot be sent to another worker.
        ended: Set when all was sent, or nobody takes the rest.
    """

    def __init__(
        self,
        first: bytes,
        rest: AsyncIterator[bytes],
        limits: BodyLimits,
        num_bytes: int | None,
    ) -> None:
        self.num_bytes = num_bytes
        self.has_begun = False
        self.ended = anyio.Event()
        self._first = first
        self._rest = rest
        self._limits = limits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body.

        Raises:
            BodyTooLarge: it does not end where it must.
        """
        self.has_begun = True
        num_bytes = len(self._first)
        try:
            yield self._first
            async for chunk in self._rest:
                num_bytes += len(chunk)
                _check_size(num_bytes, self._limits)
                yield chunk
        finally:
            self.ended.set()

    def after(self, error: WorkerUnavailable) -> WorkerUnavailable:
        """Return what to tell the caller when a worker was lost that had some of the body."""
        return type(error)(
            f"{error}; a body over {self._limits.kept:,} bytes (max_kept_body_bytes) is not kept "
            "to be sent to another worker",
            retry_after_s=error.retry_after_s,
        )


Content = bytes | PassedOn


async def read_content(request: Request, limits: BodyLimits, *, is_needed: bool) -> Content:
    """Read a body, or leave a large one to be passed on.

    Args:
        request: Whose body it is.
        limits: Of the body.
        is_needed: It is read whole, however large.

    Raises:
        BodyTooLarge: over the limit; no more than that was read or unpacked.
        InvalidInput: an encoding that is not served, or bytes that are not in it.
    """
    num_bytes = declared_bytes(request)
    _check_size(num_bytes or 0, limits)
    packing = request.headers.get("content-encoding")
    is_needed = is_needed or packing is not None or _is_counted(request)
    if not is_needed and (num_bytes or 0) > limits.kept:
        return PassedOn(b"", request.stream(), limits, num_bytes)
    chunks: list[bytes] = []
    num_read = 0
    stream = request.stream()
    async for chunk in stream:
        chunks.append(chunk)
        num_read += len(chunk)
        _check_size(num_read, limits)
        if not is_needed and num_read > limits.kept:
            return PassedOn(b"".join(chunks), stream, limits, num_bytes)
    # One that came whole is not copied.
    content = b"".join(chunks)
    if packing is None:
        return content
    # What a request asks for has to be read here.
    return await anyio.to_thread.run_sync(unpack, content, packing, limits.max)


async def until_gone(
    request: Request, content: Content, work: Callable[[], Awaitable[ResultT]]
) -> ResultT | None:
    """Await the work; cancel it and return None when the caller hangs up after its body."""
    result: ResultT | None = None
    failure: SieError | ClientDisconnect | None = None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            if isinstance(content, PassedOn):
                await content.ended.wait()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            result = await work()
        except (SieError, ClientDisconnect) as error:
            failure = error  # Raised inside the group it would come out wrapped.
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


def size_of(content: Content) -> int:
    """Return the size of a body, 0 where nothing says it yet."""
    return len(content) if isinstance(content, bytes) else content.num_bytes or 0


def declared_bytes(request: Request) -> int | None:
    """Return the size of a body as its header says it."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdigit() else None


def _is_counted(request: Request) -> bool:
    """Whether a body has to be read for its caller's account: for its models, or its size."""
    allowance = allowance_of(request.scope)
    if allowance is None:
        return False
    caller = allowance.principal
    is_sized = declared_bytes(request) is not None
    return caller.models is not None or (
        caller.limits.tokens_per_minute is not None and not is_sized
    )


def _check_size(num_bytes: int, limits: BodyLimits) -> None:
    if num_bytes > limits.max:
        raise BodyTooLarge(
            f"the body is over {limits.max:,} bytes (max_body_bytes); send fewer items at once"
        )
