"""The programs' client, for code without an event loop: `AsyncClient` behind a thread's loop.

Every method is that of `AsyncClient`, with its arguments and its docstring.
"""

import asyncio
import functools
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from sie_mcp.client.asynchronous import AsyncClient
from sie_mcp.client.options import DEFAULT_URL, OnProgress, Options

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

_LOCK = threading.Lock()
# One event loop serves all clients of a process, and ends with it.
_PORTALS: list[BlockingPortal] = []
_CLOSING: set[asyncio.Task[None]] = set()


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, ResultT]],
) -> "Callable[Concatenate[Client, P], ResultT]":
    """Return the method as one that waits."""

    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        inner = self._inner

        async def run() -> ResultT:
            return await method(inner, *args, **kwargs)

        future = _portal().start_task_soon(run)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # A Ctrl-C here should end the work there.
            raise

    functools.update_wrapper(call, method)
    return call


class Client:
    """Calls an engine, or a gateway in front of several; see `AsyncClient`. For many threads.

    Not for code that runs in an event loop, which it would hold up: there is `AsyncClient`.
    `on_progress` is called in the client's thread. A process that forks makes its clients after it.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        options: Options | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._inner = AsyncClient(url, api_key=api_key, options=options, on_progress=on_progress)
        weakref.finalize(self, _close_soon, self._inner)

    encode = _blocking(AsyncClient.encode)
    embed = _blocking(AsyncClient.embed)
    score = _blocking(AsyncClient.score)
    rerank = _blocking(AsyncClient.rerank)
    extract = _blocking(AsyncClient.extract)
    classify = _blocking(AsyncClient.classify)
    models = _blocking(AsyncClient.models)
    model = _blocking(AsyncClient.model)
    memory = _blocking(AsyncClient.memory)
    load = _blocking(AsyncClient.load)
    unload = _blocking(AsyncClient.unload)
    pin = _blocking(AsyncClient.pin)
    unpin = _blocking(AsyncClient.unpin)
    close = _blocking(AsyncClient.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _close_soon(inner: AsyncClient) -> None:
    """Close the connections of a client that nobody closed, without waiting for it.

    Runs in whichever thread collects garbage; that of the clients' own loop is one of them.
    """
    for portal in _PORTALS:
        try:
            portal.start_task_soon(inner.aclose)
        except RuntimeError:
            with suppress(RuntimeError):  # After the loop's end nothing is left to be done.
                task = asyncio.get_running_loop().create_task(inner.aclose())
                _CLOSING.add(task)
                task.add_done_callback(_CLOSING.discard)


def _portal() -> BlockingPortal:
    with _LOCK:
        if not _PORTALS:
            started: Future[BlockingPortal] = Future()
            # Not anyio's own block for it: that waits, when the interpreter ends and clears it
            # away, for a thread that no longer runs.
            threading.Thread(
                target=anyio.run, args=(_serve, started), name="sie-mcp-client", daemon=True
            ).start()
            _PORTALS.append(started.result())
        return _PORTALS[0]


async def _serve(started: "Future[BlockingPortal]") -> None:
    async with BlockingPortal() as portal:
        started.set_result(portal)
        await portal.sleep_until_stopped()
