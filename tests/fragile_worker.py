"""A worker that one text ends: all its connections break, and another is there in its place."""

import asyncio
import json
from typing import Self

from sie_mcp import wire
from sie_mcp.codec import decode_body, encode_body, media_type_of
from sie_mcp.errors import SieError
from tests.scripted_worker import vector_of

POISON = b"poison"


class FragileWorker:
    """Answers `encode` once the gate is open.

    Attributes:
        num_ends: How often it has ended.
        in_hand: Bodies of the requests that it holds.
        most_in_hand: The most of them at once, since it first ended.
        refusals: Errors that it answers the next requests with, at once.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.gate = asyncio.Event()
        self.num_ends = 0
        self.in_hand: list[bytes] = []
        self.most_in_hand = 0
        self.refusals: list[SieError] = []
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end_connections()
        self._server.close()
        await self._server.wait_closed()

    def end(self) -> None:
        """End, as a process that is killed."""
        self.num_ends += 1
        self._end_connections()

    def _end_connections(self) -> None:
        # What was in hand is answered to nobody.
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if head.startswith("get /readyz "):
                    _write(writer, "200 OK", b"{}", "")
                    continue
                await self._answer(body, headers.get("content-type"), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(
        self, body: bytes, content_type: str | None, writer: asyncio.StreamWriter
    ) -> None:
        if POISON in body:
            self.end()
            return
        if self.refusals:
            error = self.refusals.pop(0)
            content = json.dumps({"error": {"code": error.code, "message": str(error)}}).encode()
            _write(writer, f"{error.status} No", content, f"X-SIE-Error-Code: {error.code}\r\n")
            return
        self.in_hand.append(body)
        if self.num_ends:
            self.most_in_hand = max(self.most_in_hand, len(self.in_hand))
        try:
            await self.gate.wait()
        finally:
            self.in_hand.remove(body)
        items = [
            wire.EncodedItem(dense=wire.Dense(dims=2, values=vector_of(item["text"])))
            for item in decode_body(body, media_type_of(content_type))["items"]
        ]
        response = wire.EncodeResponse(model="toy", items=items, usage=wire.Usage(input_tokens=1))
        media_type = media_type_of(content_type)
        content = encode_body(response, media_type)
        _write(writer, "200 OK", content, "", media_type)


def _write(
    writer: asyncio.StreamWriter,
    status: str,
    content: bytes,
    headers: str,
    media_type: str = "application/json",
) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\n{headers}"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
