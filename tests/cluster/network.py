"""A piece of network between a gateway and a worker, which can be cut in two ways."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self


class Cable:
    """Forwards bytes to a worker until it is cut.

    Attributes:
        url: Where the worker is by this way.
        num_open: Connections through it.
    """

    def __init__(self, to_host: str, to_port: int) -> None:
        self._to = to_host, to_port
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def laid(self, host: str = "127.0.0.1") -> AsyncIterator[Self]:
        """Take connections for the length of the block."""
        server = await asyncio.start_server(self._serve, host, 0)
        self.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            self.drop()
            for task in self._tasks:
                task.cancel()

    @property
    def num_open(self) -> int:
        return len(self._writers) // 2

    def cut(self) -> None:
        """Forward nothing any more; connections stay open, and new ones are still taken."""
        self._is_whole.clear()

    def mend(self) -> None:
        """Forward again, what waited first."""
        self._is_whole.set()

    def drop(self) -> None:
        """Break every connection; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._to)
        except ConnectionError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        ways = [self._carry(reader, far_writer), self._carry(far_reader, writer)]
        tasks = [asyncio.create_task(way) for way in ways]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._tasks.difference_update(tasks)
            self._writers -= pair
            for one in pair:
                one.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self._is_whole.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return


@asynccontextmanager
async def cables(*urls: str) -> AsyncIterator[list[Cable]]:
    """Lay a cable to each worker."""
    async with AsyncExitStack() as stack:
        found = []
        for url in urls:
            host, _, port = url.removeprefix("http://").partition(":")
            found.append(await stack.enter_async_context(Cable(host, int(port)).laid()))
        yield found
