"""An HTTP server in a thread that logs what it is asked. Knows no routes; subclasses answer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

WAIT_S = 30.0


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """`cut_after` bytes the connection is closed; before that many, `hold` is waited for."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hold_after: int = 0
    hold: threading.Event | None = None


class StubServer:
    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.log: list[Request] = []
        self.holding = threading.Event()  # Set as soon as a reply waits for its `hold`.
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {key.lower(): value for key, value in self.headers.items()}
                request = Request(self.command, self.path, headers)
                stub.log.append(request)
                stub._send(self, answer(request))

            do_HEAD = do_GET  # noqa: N815  (the library's name)

            def log_message(self, format: str, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                return  # A client that was killed on purpose.

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def asked(self, part: str, method: str = "GET") -> list[Request]:
        return [
            request for request in self.log if part in request.path and request.method == method
        ]

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        for key, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            handler.send_header(key, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        body = reply.body if reply.cut_after is None else reply.body[: reply.cut_after]
        handler.wfile.write(body[: reply.hold_after])
        handler.wfile.flush()
        if reply.hold is not None:
            self.holding.set()
            reply.hold.wait(WAIT_S)
        handler.wfile.write(body[reply.hold_after :])
        handler.close_connection = reply.cut_after is not None
