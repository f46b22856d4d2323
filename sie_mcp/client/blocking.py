"""The programs' client, for code without an event loop: `AsyncClient` behind a thread's loop.

Every method is that of `AsyncClient`, with its arguments and its docstring.
"""

import functools
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from sie_mcp.client.asynchronous import AsyncClient
from sie_mcp.client.options import DEFAULT_URL, OnProgress, Options

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

_LOCK = threading.Lock()
# One event loop a process serves all clients; it ends with the process. A fork has its own.
_PORTALS: dict[int, tuple[BlockingPortal, AbstractContextManager[BlockingPortal]]] = {}


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, ResultT]],
) -> "Callable[Concatenate[Client, P], ResultT]":
    """Return the method as one that waits."""

    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        inner = self._inner()

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
    `on_progress` is called in the client's thread. A fork of the process has connections of its
    own.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        options: Options | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._open = functools.partial(
            AsyncClient, url, api_key=api_key, options=options, on_progress=on_progress
        )
        self._opened: tuple[int, AsyncClient] = os.getpid(), self._open()

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

    def _inner(self) -> AsyncClient:
        with _LOCK:
            if self._opened[0] != os.getpid():
                self._opened = os.getpid(), self._open()
            return self._opened[1]


def _portal() -> BlockingPortal:
    with _LOCK:
        if os.getpid() not in _PORTALS:
            held = start_blocking_portal(name="sie-mcp-client")
            _PORTALS[os.getpid()] = held.__enter__(), held
        return _PORTALS[os.getpid()][0]
