"""Requests over aiohttp where a server does not do its part: it reads nothing, or never ends."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest

from sie_mcp.aiohttp_transport import AiohttpTransport

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\n"
REFUSED = b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno"
LARGE = 16 * 1024 * 1024


@asynccontextmanager
async def server(
    answer: bytes, *, resets: bool = False, write_s: float = 60
) -> AsyncIterator[httpx2.AsyncClient]:
    """Answer once there is a head, read no more, and stay; or reset the connection."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(answer)
        with suppress(ConnectionError):
            await writer.drain()
        if resets:
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    links = AiohttpTransport(httpx2.Limits(max_connections=1))
    timeout = httpx2.Timeout(60, write=write_s)
    async with httpx2.AsyncClient(
        transport=links, base_url=f"http://127.0.0.1:{port}", timeout=timeout
    ) as http:
        yield http
    listening.close()
    for writer in writers:
        writer.transport.abort()


async def in_pieces() -> AsyncIterator[bytes]:
    for _ in range(LARGE // 65_536):
        yield bytes(65_536)


@pytest.mark.parametrize("content", [bytes(LARGE), None], ids=["whole", "pieces"])
async def test_who_reads_nothing_of_a_request_is_waited_for_as_long_as_it_may_take(content):
    async with server(b"", write_s=0.1) as http:
        for _ in range(2):  # The one place is free again.
            with pytest.raises(httpx2.WriteTimeout):
                await asyncio.wait_for(http.post("/", content=content or in_pieces()), 30)


@pytest.mark.parametrize("content", [bytes(LARGE), None], ids=["whole", "pieces"])
async def test_an_answer_before_the_request_was_taken_is_its_answer(content):
    async with server(REFUSED) as http:
        for _ in range(2):  # Over a connection of its own: the first still has what nobody took.
            answer = await asyncio.wait_for(http.post("/", content=content or in_pieces()), 30)
            assert (answer.status_code, answer.content) == (413, b"no")


async def test_a_reset_is_no_end_of_an_answer():
    async with server(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", resets=True
    ) as http:
        with pytest.raises(httpx2.TransportError):
            await http.get("/")


async def test_an_answer_to_head_has_no_body_whatever_its_length():
    async with server(HEAD + b"Content-Length: 5\r\n\r\n") as http:
        answer = await http.head("/")
        assert answer.headers["content-length"] == "5"
        assert answer.content == b""


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"X-A: b\r\n" * 100_000,
        HEAD + b"X-A: " + b"a" * 1_000_000,
        b"HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["headers", "one", "upgrade"],
)
async def test_a_head_that_never_ends_and_another_protocol_are_refused(answer, caplog):
    async with server(answer) as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get("/")
    assert not caplog.records or all(one.levelname == "INFO" for one in caplog.records)


async def breaking_off() -> AsyncIterator[bytes]:
    yield b"some"
    raise LookupError("no more")


async def test_what_breaks_a_request_off_is_what_its_body_said():
    async with server(b"") as http:
        for _ in range(2):
            with pytest.raises(LookupError, match="no more"):
                await http.post("/", content=breaking_off())


async def test_trailers_are_no_headers():
    chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\nX-A: b\r\n\r\n"
    async with server(HEAD + chunked) as http:
        answer = await http.get("/")
        assert (answer.content, answer.headers.get("x-a")) == (b"he", None)


@asynccontextmanager
async def hesitant(*heads: bytes) -> AsyncIterator[httpx2.AsyncClient]:
    """Take all of a request; then send interim heads, the last one again and again, no answer."""
    writers: list[asyncio.StreamWriter] = []
    is_over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        received = asyncio.create_task(_drained(reader))
        for head in heads:
            writer.write(head)
        with suppress(ConnectionError):
            while not is_over.is_set() and not received.done() and len(heads) > 1:
                writer.write(heads[-1])
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(received), 0.01)
        await is_over.wait()
        received.cancel()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    links = AiohttpTransport(httpx2.Limits(max_connections=1))
    timeout = httpx2.Timeout(60, connect=1, read=0.2)
    async with httpx2.AsyncClient(
        transport=links, base_url=f"http://127.0.0.1:{port}", timeout=timeout
    ) as http:
        yield http
    is_over.set()
    listening.close()
    for writer in writers:
        writer.transport.abort()


async def _drained(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(65_536):
            pass


@pytest.mark.parametrize("content", [b"x", bytes(LARGE), None], ids=["small", "whole", "pieces"])
@pytest.mark.parametrize(
    "heads",
    [
        (b"HTTP/1.1 102 Processing\r\n\r\n",),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
    ids=["one", "many"],
)
async def test_interim_answers_are_not_waited_after_for_ever(heads, content):
    async with hesitant(*heads) as http:
        for _ in range(2):  # The one place is free again.
            with pytest.raises(httpx2.ReadTimeout):
                await asyncio.wait_for(http.post("/", content=content or in_pieces()), 30)
