"""The picker's program: what it needs to start, health, TLS, figures, and how it leaves."""

import datetime
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import grpc
import grpc.aio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from typer.testing import CliRunner

from sie_mcp.cli import app as cli
from sie_mcp.config import Config
from sie_mcp.errors import SettingError
from sie_mcp.gateway.endpoint_picker.app import build_picker
from sie_mcp.gateway.endpoint_picker.protocol import EXT_PROC, process_of
from sie_mcp.gateway.endpoint_picker.rules import Rules
from sie_mcp.gateway.endpoint_picker.server import Door, Ports, serving
from tests.gateway.endpoint_picker.parts import MODES, NotingPicks, destination, head
from tests.scripted_worker import until
from tests.servers import serving as serving_app

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

WORKERS = ("http://127.0.0.1:9",)
SERVING, NOT_SERVING = 1, 2


@pytest.fixture
def anyio_backend() -> str:
    """The library's own loop."""
    return "asyncio"


def door(**more) -> Door:
    return Door("127.0.0.1", 0, 0, grace_s=5.0, **more)


async def health(ports: Ports, service: str) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{ports.health}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        return (await stub.Check(request, timeout=10)).status


async def test_alive_is_not_ready():
    is_ready = False
    async with serving(NotingPicks(), Rules(), door(), lambda: is_ready) as ports:
        assert await health(ports, "liveness") == SERVING
        for service in ("readiness", EXT_PROC, ""):
            assert await health(ports, service) == NOT_SERVING
        is_ready = True
        for service in ("readiness", EXT_PROC, ""):
            assert await health(ports, service) == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await health(ports, "other")
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def ask(channel: grpc.aio.Channel) -> str:
    """Send one request's head; return where it should go."""
    call = process_of(channel)(timeout=10)
    await call.write(head("/v1/encode/m", mode=MODES.NONE, is_end=True))
    answer = await call.read()
    await call.done_writing()
    return destination(answer)


async def test_a_proxy_that_hangs_up_frees_what_it_had():
    picks = NotingPicks()
    async with (
        serving(picks, Rules(), door(), lambda: True) as ports,
        grpc.aio.insecure_channel(f"127.0.0.1:{ports.picker}") as channel,
    ):
        call = process_of(channel)()
        await call.write(head("/v1/encode/m", mode=MODES.NONE, is_end=True))
        await call.read()
        assert picks.ended == []
        call.cancel()
        await until(lambda: picks.ended == ["done"])


async def test_a_certificate_that_was_renewed_is_used_for_the_next_connection(tmp_path):
    first, second = certificate(), certificate()
    write(tmp_path, first)
    async with serving(
        NotingPicks(), Rules(), door(certificate_dir=tmp_path), lambda: True
    ) as ports:
        async with trusting(ports, first) as channel:
            assert await ask(channel) == "10.0.0.1:9000,10.0.0.2:9000,10.0.0.3:9000"
        write(tmp_path, second)
        async with trusting(ports, second) as channel:
            assert await ask(channel)
        # Half-way through a renewal the one of before is still good.
        (tmp_path / "tls.key").unlink()
        async with trusting(ports, second) as channel:
            assert await ask(channel)


async def test_a_certificate_that_is_not_there_stops_the_start(tmp_path):
    with pytest.raises(SettingError, match="picker_certificate_dir"):
        async with serving(NotingPicks(), Rules(), door(certificate_dir=tmp_path), lambda: True):
            pytest.fail("started")


async def test_a_port_that_is_taken_stops_the_start():
    async with serving(NotingPicks(), Rules(), door(), lambda: True) as ports:
        taken = Door("127.0.0.1", ports.picker, 0)
        with pytest.raises(SettingError, match="picker_port"):
            async with serving(NotingPicks(), Rules(), taken, lambda: True):
                pytest.fail("started")


async def test_the_program_is_ready_when_it_has_heard_of_its_workers(tmp_path):
    config = Config(cache_dir=tmp_path, workers=WORKERS, picker_port=0, picker_health_port=0)
    app = build_picker(config)
    async with serving_app(app) as url, httpx2.AsyncClient(base_url=url) as pages:
        with anyio.fail_after(30):
            while (await pages.get("/readyz")).status_code != 200:
                await anyio.sleep(0.01)
        assert await health(app.state.ports, "readiness") == SERVING
        assert (await pages.get("/internal/scale")).json() == {"pools": {"default": 0}}
        assert "sie_pool_workers" in (await pages.get("/metrics")).text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "set workers or pools_file"),
        ({"worker_url": "http://127.0.0.1:9"}, "set workers or pools_file"),
        ({"workers": ("http://worker:9000",)}, "no address that a proxy could be told"),
        ({"workers": ("https://127.0.0.1:9000",)}, "give http://IP:PORT"),
        ({"workers": ("http://127.0.0.1",)}, "give http://IP:PORT"),
    ],
)
def test_what_a_proxy_could_not_use_stops_the_start(tmp_path, settings, says):
    with pytest.raises(SettingError, match=says):
        build_picker(Config(cache_dir=tmp_path, **settings))


def test_without_its_libraries_the_command_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("sie_mcp.gateway.endpoint_picker"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    ended = CliRunner().invoke(cli, ["endpoint-picker"])
    assert ended.exit_code == 2
    assert "pip install 'sie-mcp[picker]'" in ended.output


@asynccontextmanager
async def trusting(ports: Ports, pair: tuple[bytes, bytes]) -> AsyncIterator[grpc.aio.Channel]:
    credentials = grpc.ssl_channel_credentials(pair[0])
    async with grpc.aio.secure_channel(f"localhost:{ports.picker}", credentials) as channel:
        yield channel


def write(folder, pair: tuple[bytes, bytes]) -> None:
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        (folder / name).write_bytes(content)


def certificate() -> tuple[bytes, bytes]:
    """Return a certificate of localhost that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return made.public_bytes(serialization.Encoding.PEM), private
