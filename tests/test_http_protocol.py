"""What servers make of HTTP as it comes: values, and heads that have no end."""

import ast
import re
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import sie_mcp
from sie_mcp import http_protocol
from sie_mcp.http_protocol import LATE, MAX_HEAD_BYTES, HttpProtocol
from tests.servers import serving

pytestmark = pytest.mark.anyio
LINE = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
WHOLE = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
PIECE = 8 * 1024
HALF = b"a" * (MAX_HEAD_BYTES // 2)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Say which fields came, and how much body."""
    if scope["type"] != "http":
        return
    request = Request(scope, receive)
    try:
        body = await request.body()
    except ClientDisconnect:
        return
    told = {"fields": dict(request.headers), "body": len(body)}
    await JSONResponse(told)(scope, receive, send)


async def told(
    request: bytes, piece: int = PIECE, *, app: ASGIApp = echo, keep_alive_s: float = 5
) -> bytes:
    """Send a request in pieces and return the answer, once the server has closed.

    A server that closes before it has read all resets the connection, which may cost the answer.
    """
    async with serving(app, keep_alive_s=keep_alive_s) as url:
        stream = await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2]))
        answer = bytearray()

        async def listen() -> None:
            try:
                while True:
                    answer.extend(await stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                group.cancel_scope.cancel()

        with anyio.fail_after(20):
            async with stream, anyio.create_task_group() as group:
                group.start_soon(listen)
                with suppress(anyio.BrokenResourceError):
                    for start in range(0, len(request), piece):
                        await stream.send(request[start : start + piece])
                await anyio.sleep_forever()
    return bytes(answer)


async def test_whitespace_around_a_value_is_no_part_of_it():
    answer = await told(LINE + b"Mcp-Name: \t two words \t \r\nEmpty:  \r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"mcp-name":"two words"' in answer
    assert b'"empty":""' in answer


@pytest.mark.parametrize("piece", [1024, PIECE, 1024 * 1024])
async def test_a_head_up_to_the_limit_is_read_however_it_comes(piece):
    answer = await told(LINE + b"A: " + HALF + b"\r\nB: " + HALF[1024:] + b"\r\n\r\n", piece)

    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("piece", [PIECE, 1024 * 1024])
@pytest.mark.parametrize(
    "head",
    [
        LINE + b"A: " + HALF * 8,
        LINE + b"A: " + HALF + b"\r\nB: " + HALF * 4,
        LINE + b"A: b\r\n" * 30_000,
        b"POST /" + HALF * 8,
        LINE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 30_000,
        LINE + b"Transfer-Encoding: chunked\r\n\r\n5;" + HALF * 8,
    ],
    ids=["a field", "a second field", "fields", "a target", "trailers", "a chunk's extension"],
)
async def test_what_stands_before_a_body_and_has_no_end_is_refused(head, piece):
    answer = await told(head, piece)

    assert not answer or answer.startswith(b"HTTP/1.1 400")


async def test_the_answer_says_what_was_wrong():
    answer = await told(LINE + b"A: " + HALF + b"\r\nB: " + HALF + b"\r\nC: d")

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b"The request line and its fields have more than 65536 bytes.")


@pytest.mark.parametrize("piece", [1024, 1024 * 1024])
async def test_a_body_is_not_counted(piece):
    body = HALF * 8
    plain = await told(LINE + b"Content-Length: %d\r\n\r\n" % len(body) + body, piece)
    chunk = b"400\r\n" + b"a" * 1024 + b"\r\n"
    in_chunks = await told(
        LINE + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 256 + b"0\r\n\r\n", piece
    )

    assert b'"body":%d' % len(body) in plain
    assert b'"body":%d' % (256 * 1024) in in_chunks


OFFER = (
    b"HTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
)


@pytest.mark.parametrize("piece", [1, 7, PIECE])
async def test_a_request_that_offers_another_protocol_is_answered_as_it_is(piece):
    offered = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + OFFER
    first = offered + b"Content-Length: 5\r\n\r\nfirst"
    second = offered + b"Transfer-Encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n"
    last = LINE + b"Content-Length: 4\r\n\r\nlast"
    answer = await told(first + second + last, piece)

    assert answer.count(b"HTTP/1.1 200") == 3
    assert re.findall(rb'"body":(\d)', answer) == [b"5", b"6", b"4"]
    assert b'"upgrade"' not in answer


async def test_a_thousand_offers_in_one_piece_are_answered():
    offered = b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n"
    answer = await told((offered + b"Content-Length: 1\r\n\r\nx") * 1500 + LINE + b"\r\n", 1 << 20)

    assert answer.count(b"HTTP/1.1 200") == 1501


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"nonsense\r\n",
        b"GET / HTTP/7.7\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
        LINE + b"Content-Length: 1\r\nContent-Length: 2\r\n",
        LINE + OFFER + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        LINE + OFFER + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
    ],
)
async def test_what_is_no_request_to_us_is_refused(head):
    answer = await told(head + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b"Invalid HTTP request received.")


@pytest.mark.parametrize("sent", [LINE, WHOLE + LINE], ids=["the first", "a later one"])
async def test_nobody_waits_without_end_for_the_rest_of_a_head(monkeypatch, sent):
    monkeypatch.setattr(http_protocol, "MAX_HEAD_S", 0.05)

    answer = await told(sent, keep_alive_s=1000)

    assert answer.endswith(LATE)
    assert answer.count(b"HTTP/1.1 200") == sent.count(WHOLE)


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "a blank line"])
async def test_a_connection_on_which_no_request_begins_is_an_idle_one(sent):
    assert await told(sent, keep_alive_s=0.05) == b""


async def test_a_blank_line_after_an_answer_keeps_no_connection():
    async with serving(echo, keep_alive_s=2) as url:
        with anyio.fail_after(20):
            async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as stream:
                await stream.send(WHOLE)
                while not (await stream.receive()).endswith(b'"body":0}'):
                    pass
                await stream.send(b"\r\n")
                # Reset, if it had been closed before the line came.
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()


async def test_an_answer_that_takes_long_is_not_cut_off_by_half_a_head(monkeypatch):
    monkeypatch.setattr(http_protocol, "MAX_HEAD_S", 0.01)
    given_up, gate = [], anyio.Event()
    real = HttpProtocol._give_up

    def noted(self: HttpProtocol) -> None:
        given_up.append(self)
        if len(given_up) == 3:
            gate.set()
        real(self)

    monkeypatch.setattr(HttpProtocol, "_give_up", noted)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await gate.wait()
            await echo(scope, receive, send)

    answer = await told(WHOLE + LINE, app=slow)

    assert b'"body":0}' in answer
    assert answer.endswith(LATE)


def test_every_server_of_ours_reads_http_by_it():
    made = [
        (path.name, {word.arg: ast.unparse(word.value) for word in node.keywords})
        for path in Path(sie_mcp.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "uvicorn.Config"
    ]
    assert len(made) == 4
    assert {words.get("http") for _, words in made} == {"HttpProtocol"}, made
