"""The gRPC side of the endpoint picker: Envoy's external processing, and health beside it.

Health has a port of its own, in plain text: probes of Kubernetes speak no TLS.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sie_mcp.errors import SettingError
from sie_mcp.gateway.endpoint_picker.exchange import Buffers, Exchange, Picks
from sie_mcp.gateway.endpoint_picker.protocol import EXT_PROC, handlers
from sie_mcp.gateway.endpoint_picker.rules import Rules

logger = logging.getLogger(__name__)

LIVENESS, READINESS = "liveness", "readiness"
CERTIFICATE, KEY = "tls.crt", "tls.key"
# Each is a request that waits or runs; beyond it the proxy is refused, which it answers itself.
MAX_STREAMS = 16_384
MAX_HELD_BYTES = 512 * 1024 * 1024
OVERHEAD_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Door:
    """Where the picker listens.

    Attributes:
        port: For proxies; 0: any.
        health_port: For probes; 0: any.
        certificate_dir: With `tls.crt` and `tls.key`, read again when they change; None: no TLS.
        max_body_bytes: Of a request.
        grace_s: How long exchanges may take to end when it closes.
    """

    host: str
    port: int
    health_port: int
    certificate_dir: Path | None = None
    max_body_bytes: int = 64 * 1024 * 1024
    grace_s: float = 25.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where it does listen."""

    picker: int
    health: int


@asynccontextmanager
async def serving(
    picks: Picks, rules: Rules, door: Door, is_ready: Callable[[], bool]
) -> AsyncIterator[Ports]:
    """Answer proxies until the block ends, and then what is begun.

    Raises:
        SettingError: a port is taken, or the certificate cannot be read.
    """
    limit = door.max_body_bytes + OVERHEAD_BYTES
    options = [("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_STREAMS)
    buffers = Buffers(door.max_body_bytes, MAX_HELD_BYTES)
    processor = _Processor(picks, rules, buffers)
    server.add_generic_rpc_handlers((handlers(processor.process),))
    health = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(_Health(is_ready), health)
    try:
        ports = Ports(_open(server, door), health.add_insecure_port(_at(door, door.health_port)))
    except RuntimeError as error:
        raise SettingError(f"picker_port or picker_health_port: {error}") from error
    await server.start()
    await health.start()
    logger.info("picking port=%d health_port=%d", ports.picker, ports.health)
    try:
        yield ports
    finally:
        await server.stop(door.grace_s)
        await health.stop(0)


class _Processor:
    """One call is one request of the proxy's."""

    def __init__(self, picks: Picks, rules: Rules, buffers: Buffers) -> None:
        self._picks, self._rules, self._buffers = picks, rules, buffers

    async def process(
        self, request_iterator: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[Any]:
        """Answer the parts of one request."""
        exchange = Exchange(self._picks, self._rules, self._buffers)
        try:
            async for message in request_iterator:
                for one in await exchange.answer(message):
                    yield one
                if exchange.is_refused:
                    return
        finally:
            await exchange.end()


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Alive as long as it answers; ready while the workers are known and nobody leaves."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Say how a service is; the picker itself where none is named."""
        if request.service not in ("", LIVENESS, READINESS, EXT_PROC):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service[:80]!r}")
        is_fine = request.service == LIVENESS or self._is_ready()
        status = health_pb2.HealthCheckResponse.SERVING
        return health_pb2.HealthCheckResponse(
            status=status if is_fine else health_pb2.HealthCheckResponse.NOT_SERVING
        )


def _open(server: Any, door: Door) -> int:
    place = _at(door, door.port)
    if door.certificate_dir is None:
        return int(server.add_insecure_port(place))
    first = _configuration(door.certificate_dir)
    credentials = grpc.dynamic_ssl_server_credentials(
        first, _renewed(door.certificate_dir), require_client_authentication=False
    )
    return int(server.add_secure_port(place, credentials))


def _renewed(folder: Path) -> Callable[[], Any]:
    """Return what reads the certificate for each new connection."""

    def fetch() -> Any:
        try:
            return _configuration(folder)
        except SettingError as error:
            logger.error("the certificate of before is kept error=%s", error)  # noqa: TRY400
            return None

    return fetch


def _configuration(folder: Path) -> Any:
    try:
        pair = (folder / KEY).read_bytes(), (folder / CERTIFICATE).read_bytes()
    except OSError as error:
        raise SettingError(f"picker_certificate_dir: {error}") from error
    return grpc.ssl_server_certificate_configuration([pair])


def _at(door: Door, port: int) -> str:
    host = f"[{door.host}]" if ":" in door.host else door.host
    return f"{host}:{port}"
