"""The benchmark's callers count good answers and bad ones, however they are framed."""

import asyncio
import base64
from typing import Any

import pytest

from evals.bench.load_client import load

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(("answer", "is_good"), [(PLAIN, True), (CHUNKED, True), (REFUSED, False)])
def test_callers_count_answers(answer: bytes, is_good: bool) -> None:
    found, seen = asyncio.run(_served(answer))
    assert len(found["times_s"]) == len(seen) > 0
    assert set(seen) == {b"aaaa", b"bbbb"}
    assert found["failed"] == (0 if is_good else len(seen))


async def _served(answer: bytes) -> tuple[dict[str, Any], list[bytes]]:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                seen.append(await reader.readexactly(4))
                writer.write(answer)
        except asyncio.IncompleteReadError:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        asked = {
            "host": "127.0.0.1",
            "port": server.sockets[0].getsockname()[1],
            "path": "/",
            "type": "application/json",
            "bodies": [base64.b64encode(one).decode() for one in (b"aaaa", b"bbbb")],
            "clients": 2,
            "seconds": 0.05,
        }
        return await asyncio.wait_for(load(asked), 20), seen
