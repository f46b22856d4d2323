"""Requests over aiohttp before servers of every kind: what comes, what breaks, what is kept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from sie_mcp.aiohttp_transport import AiohttpTransport

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\n"
HELLO = HEAD + b"Content-Length: 5\r\n\r\nhello"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


@asynccontextmanager
async def server(
    *answers: bytes, stays: bool = True, pool_s: float = 30, **limits: float
) -> AsyncIterator["Served"]:
    """Give each request of a connection the next answer, in its parts; then close or stay."""
    served = Served()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.num_connections += 1
        served.writers.append(writer)
        try:
            while True:
                served.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answers[min(len(served.heads), len(answers)) - 1])
                await writer.drain()
                if not stays:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    kept = {"max_connections": 4, "max_keepalive_connections": 2, "keepalive_expiry": 60.0}
    links = AiohttpTransport(httpx2.Limits(**(kept | limits)))
    timeout = httpx2.Timeout(30, pool=pool_s)
    async with httpx2.AsyncClient(
        transport=links, base_url=f"http://127.0.0.1:{port}", timeout=timeout
    ) as served.http:
        yield served
    listening.close()
    for writer in served.writers:
        writer.close()


class Served:
    """What a server saw."""

    http: httpx2.AsyncClient

    def __init__(self) -> None:
        self.num_connections = 0
        self.heads: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [HELLO, CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO])
async def test_answers_of_every_framing_come_whole_over_one_connection(answer):
    async with server(answer) as served:
        for _ in range(3):
            assert (await served.http.post("/a?b=%20c", content=b"x")).content == b"hello"
        assert served.num_connections == 1
        assert served.heads[0].startswith(b"POST /a?b=%20c HTTP/1.1\r\n")


@pytest.mark.parametrize("stays", [True, False])
async def test_an_answer_that_does_not_say_where_it_ends_is_refused(stays):
    async with server(HEAD + b"\r\nhello", stays=stays) as served:
        for _ in range(5):  # None keeps a place.
            with pytest.raises(httpx2.RemoteProtocolError, match="where it ends"):
                await served.http.get("/")


async def test_a_server_that_closes_is_connected_to_again():
    async with server(HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n") as served:
        assert (await served.http.get("/")).content == b""
        assert (await served.http.get("/")).content == b""
        assert served.num_connections == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx2.RemoteProtocolError),
        (HEAD[:9], httpx2.RemoteProtocolError),
        (b"SSH-2.0\r\n\r\n", httpx2.RemoteProtocolError),
        (HEAD + b"Content-Length: 9\r\n\r\nhello", httpx2.RemoteProtocolError),
        (CHUNKED[:-5], httpx2.RemoteProtocolError),
    ],
)
async def test_an_answer_that_breaks_off_is_an_error_and_not_an_answer(answer, error):
    async with server(answer, stays=False) as served:
        with pytest.raises(error):
            await served.http.get("/")


async def test_nobody_there_is_an_error_of_the_connection():
    async with server(HELLO) as served:
        url = served.http.base_url
    async with httpx2.AsyncClient(transport=AiohttpTransport(httpx2.Limits())) as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(url)


async def test_silence_and_too_many_at_once_are_over_in_their_time():
    limits = {"max_connections": 1, "pool_s": 0.05}
    async with server(HEAD + b"Content-Length: 1\r\n\r\n", **limits) as served:
        async with served.http.stream("GET", "/"):
            with pytest.raises(httpx2.PoolTimeout):
                await served.http.get("/")
        with pytest.raises(httpx2.ReadTimeout):
            await served.http.get("/", timeout=httpx2.Timeout(30, read=0.05))
        # Neither keeps a place.
        with pytest.raises(httpx2.ReadTimeout):
            await served.http.get("/", timeout=httpx2.Timeout(30, read=0.05))


async def test_a_connection_with_an_answer_that_was_not_read_is_not_used_again():
    async with server(HEAD + b"Content-Length: 9\r\n\r\nhello", HELLO) as served:
        async with served.http.stream("GET", "/") as answer:
            assert answer.status_code == 200
        assert (await served.http.get("/")).content == b"hello"
        assert served.num_connections == 2


async def test_an_idle_connection_is_let_go_of_when_it_is_old():
    async with server(HELLO, keepalive_expiry=0.0) as served:
        await served.http.get("/")
        await served.http.get("/")
        assert served.num_connections == 2


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "a\0b"])
async def test_no_header_can_hold_another(value):
    async with server(HELLO) as served:
        with pytest.raises(httpx2.LocalProtocolError):
            await served.http.get("/", headers={"X-A": value})
        assert served.heads == []


async def test_what_comes_unasked_is_nobodys_answer():
    async with server(HELLO + b"HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad", HELLO) as served:
        assert (await served.http.get("/")).content == b"hello"
        assert (await served.http.get("/")).content == b"hello"


async def test_a_large_answer_waits_for_its_reader():
    size = 8 * 1024 * 1024
    async with server(HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size)) as served:
        async with served.http.stream("GET", "/") as answer:
            parts = [len(part) async for part in answer.aiter_raw()]
        assert sum(parts) == size
        assert max(parts) < 1024 * 1024
        assert (await served.http.get("/")).status_code == 200
        assert served.num_connections == 1
