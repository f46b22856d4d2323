"""Parts of a request as Envoy sends them, and pools that note what they are told."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sie_mcp.connection import Address, Want
from sie_mcp.errors import SieError
from sie_mcp.gateway.endpoint_picker import protocol
from sie_mcp.gateway.endpoint_picker.exchange import Buffers, Exchange
from sie_mcp.gateway.endpoint_picker.messages import DESTINATION, HINT, SUBSET
from sie_mcp.gateway.endpoint_picker.rules import Rules

MODES = protocol.BodySendMode
A, B, C = (f"http://10.0.0.{number}:9000" for number in (1, 2, 3))


@dataclass
class NotingPicks:
    """Gives the first worker, and notes how each request ended."""

    error: SieError | None = None
    wants: list[Want] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    learnt: list[str | None] = field(default_factory=list)

    async def address(self, want: Want) -> Address:
        self.wants.append(want)
        if self.error is not None:
            raise self.error
        return Address(A)

    def next_best(self, address: Address, want: Want, count: int) -> list[Address]:
        return [Address(B), Address(C)][:count]

    def done(self, address: Address, want: Want) -> None:
        self.ended.append("done")

    async def lost(self, address: Address, want: Want) -> None:
        self.ended.append("lost")

    def learn(self, want: Want, name: str | None) -> None:
        self.learnt.append(name)


def exchange(picks: NotingPicks, rules: Rules | None = None, limit: int = 1_000_000) -> Exchange:
    return Exchange(picks, rules or Rules(), Buffers(limit, 2 * limit))


def head(
    path: str,
    *,
    mode: int = MODES.BUFFERED,
    method: str = "POST",
    is_end: bool = False,
    subset: Sequence[str] | str | None = None,
    **headers: str,
) -> Any:
    pairs = {":path": path, ":method": method, "content-type": "application/json"}
    pairs |= {name.replace("_", "-"): value for name, value in headers.items()}
    message = protocol.ProcessingRequest(
        request_headers=protocol.HttpHeaders(headers=_map(pairs), end_of_stream=is_end),
        protocol_config=protocol.ProtocolConfiguration(
            request_body_mode=mode, response_body_mode=mode
        ),
    )
    if subset is not None:
        message.metadata_context.filter_metadata[HINT].update({SUBSET: subset})
    return message


def body(content: bytes | dict[str, Any], *, is_end: bool = True) -> Any:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return protocol.ProcessingRequest(
        request_body=protocol.HttpBody(body=data, end_of_stream=is_end)
    )


def response(status: int, *, is_end: bool = False, **headers: str) -> Any:
    pairs = {":status": str(status)}
    pairs |= {name.replace("_", "-"): value for name, value in headers.items()}
    return protocol.ProcessingRequest(
        response_headers=protocol.HttpHeaders(headers=_map(pairs), end_of_stream=is_end)
    )


def set_headers(message: Any) -> dict[str, str]:
    """Return what an answer sets, wherever it does."""
    part = getattr(message, message.WhichOneof("response"))
    mutation = part.headers if hasattr(part, "headers") else part.response.header_mutation
    assert all(one.append_action == 2 for one in mutation.set_headers)  # Overwrite or add.
    return {one.header.key: one.header.raw_value.decode() for one in mutation.set_headers}


def destination(message: Any) -> str:
    """Return where an answer sends the request: header and metadata must agree."""
    value = set_headers(message)[DESTINATION]
    assert message.dynamic_metadata["envoy.lb"][DESTINATION] == value
    return value


def sent_on(messages: Sequence[Any], part: str = "request_body") -> tuple[bytes, bool]:
    """Return the body that answers hand on, and whether it ends with them."""
    parts = [
        getattr(one, part).response.body_mutation.streamed_response
        for one in messages
        if one.WhichOneof("response") == part
    ]
    assert not any(one.end_of_stream for one in parts[:-1])
    return b"".join(one.body for one in parts), bool(parts) and parts[-1].end_of_stream


def _map(pairs: dict[str, str]) -> Any:
    return protocol.HeaderMap(
        headers=[
            protocol.HeaderValue(key=key, raw_value=value.encode()) for key, value in pairs.items()
        ]
    )
