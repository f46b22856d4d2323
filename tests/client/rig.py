"""What tests of the client share: endpoints and workers that misbehave, and a listener."""

import asyncio

from sie_mcp import wire
from sie_mcp.connection import ANYTHING, Address, OneWorker, Want


class Endpoints(OneWorker):
    """An endpoint that gives one address after another, the last for ever."""

    def __init__(self, *urls: str) -> None:
        self._urls = list(urls)
        self.lost_urls: list[str] = []

    async def address(self, want: Want = ANYTHING) -> Address:
        return Address(self._urls.pop(0) if len(self._urls) > 1 else self._urls[0])

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        self.lost_urls.append(address.base_url)


class SlowEndpoint(OneWorker):
    """An endpoint whose worker starts when the gate opens."""

    def __init__(self, url: str) -> None:
        self.gate = asyncio.Event()
        self._url = url

    async def address(self, want: Want = ANYTHING) -> Address:
        await self.gate.wait()
        return Address(self._url)

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        raise AssertionError("nothing is lost here")


class News:
    """Progress that was reported."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, str]] = []

    async def __call__(self, done: int, total: int, message: str) -> None:
        self.heard.append((done, total, message))


def items(*texts: str) -> list[wire.Item]:
    return [wire.Item(text=text) for text in texts]


def numbered(count: int) -> list[wire.Item]:
    return items(*[str(number) for number in range(count)])


class dying_worker:  # noqa: N801 (reads as a context manager)
    """A worker that dies when it has read the beginning of a request."""

    async def __aenter__(self) -> str:
        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.transport.abort()

        self._server = await asyncio.start_server(die, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
