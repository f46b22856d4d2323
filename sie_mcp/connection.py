"""Where a worker is, what finds one, the open connections to each, and what a broken one means.

Knows addresses and HTTP connections; knows nothing of requests, models or how a worker starts.
"""

import urllib.request
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio
import httpx2

from sie_mcp.errors import DeadlineExceeded, QueueFull, SieError, WorkerLost, WorkerUnavailable

if TYPE_CHECKING:
    from sie_mcp.aiohttp_transport import AiohttpTransport

CONNECT_TIMEOUT_S = 5.0
# A worker keeps to the same deadline; its own words are better than our silence.
GRACE_S = 2.0
# Enough for every call a gateway may have open; more would only wait in the worker's queue.
MAX_CONNECTIONS = 512
# A burst of so many calls finds its connections open when it comes again.
MAX_IDLE_CONNECTIONS = 128
# Servers of ours keep an idle connection open for longer than clients of ours keep it to use it
# again: so no request meets one that is just being closed.
CLIENT_KEEP_ALIVE_S, SERVER_KEEP_ALIVE_S = 60, 75
# Nothing is gained by packing on this side; callers of a gateway say themselves what they take.
_PLAIN = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens: a base URL, and a Unix socket path for local ones.

    With `transport` it is no one worker's: whoever sends there hears from one of several.

    Attributes:
        zone: The part of a cloud that it is in, where that is known; no part of the address.
    """

    base_url: str
    uds: str | None = None
    zone: str | None = field(default=None, compare=False)
    transport: httpx2.AsyncBaseTransport | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.transport is not None:
            return f"a worker by {self.base_url}"
        return f"the worker at {self.base_url}" if self.uds is None else "the local worker"


@dataclass(frozen=True, slots=True)
class Want:
    """What a request is for, as far as it matters to who gets it.

    Attributes:
        model: As the caller names it; empty where it is for no model.
        lora: On the model.
        pool: The pool that the caller chose.
        tried: Base URLs of workers that did not answer this very request.
        among: Base URLs of the only workers that may get it; None: any.
        priority: Of what runs a model; empty for anything else.
        transport: The way that the caller chose: "direct" or "queue".
    """

    model: str = ""
    lora: str | None = None
    pool: str | None = None
    tried: frozenset[str] = frozenset()
    among: frozenset[str] | None = None
    priority: str = ""
    transport: str | None = None


ANYTHING = Want()


class Endpoint(Protocol):
    """Finds a worker; a local one starts or joins it first."""

    @property
    def chooses(self) -> bool:
        """Whether it matters what a request is for."""

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return a worker that should answer. May be cancelled and called again at any time.

        The worker has one request more until `done` or `lost`.

        Raises:
            WorkerUnavailable: none could be found or started.
        """

    def done(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that the worker answered, or that its caller waits no more."""

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that the worker at this address did not answer."""

    def learn(self, want: Want, name: str | None) -> None:
        """Hear under which name a worker keeps the model, if it said so."""

    def held(self, address: Address, scope: anyio.CancelScope) -> AbstractContextManager[None]:
        """Cancel the scope if the worker falls silent while the block has a request of it."""


class OneWorker:
    """What there is to hear where there is no choice: nothing."""

    chooses = False

    def done(self, address: Address, want: Want = ANYTHING) -> None:
        """Do nothing."""

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        """Do nothing: whoever runs the worker restarts it."""

    def learn(self, want: Want, name: str | None) -> None:
        """Do nothing."""

    def held(self, address: Address, scope: anyio.CancelScope) -> AbstractContextManager[None]:
        """Do nothing: whoever runs the worker ends it."""
        return nullcontext()


class FixedEndpoint(OneWorker):
    """A worker at a known URL."""

    def __init__(self, base_url: str) -> None:
        self._address = Address(base_url=base_url.rstrip("/"))

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return the URL."""
        return self._address


@asynccontextmanager
async def one_try(endpoint: Endpoint, address: Address, want: Want) -> AsyncIterator[None]:
    """Send a request to a worker inside this: the endpoint hears how it ended.

    Raises:
        WorkerUnavailable: the worker fell silent.
    """
    with anyio.CancelScope() as scope:
        try:
            with endpoint.held(address, scope):
                yield
        except WorkerUnavailable:
            await endpoint.lost(address, want)
            raise
        except BaseException:
            if scope.cancel_called:
                await endpoint.lost(address, want)
            else:
                endpoint.done(address, want)
            raise
        endpoint.done(address, want)
    if scope.cancelled_caught:
        raise WorkerUnavailable(f"{address} has fallen silent; call again", retry_after_s=0.1)


class Connections:
    """One pool of connections for each address, opened when first asked for."""

    def __init__(self, *, timeout_s: float, key: str | None = None) -> None:
        self._timeout_s = timeout_s
        self._limits_s = {
            "connect": CONNECT_TIMEOUT_S, "pool": CONNECT_TIMEOUT_S,
            "read": timeout_s, "write": timeout_s,
        }  # fmt: skip
        self._headers = dict(_PLAIN)
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._pools: dict[Address, httpx2.AsyncClient] = {}
        self._straight: dict[Address, AiohttpTransport] = {}

    async def send(
        self,
        address: Address,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        content: bytes | AsyncIterable[bytes],
    ) -> httpx2.Response:
        """Send a request as it is, its length among the headers; the answer's body is to be read.

        Raises:
            RequestError: as for requests of `to`.
        """
        connections = self.to(address)
        straight = self._straight.get(address)
        if straight is None:
            # As the other way writes them; what is not ASCII would else be refused.
            given = httpx2.Headers(headers, encoding="utf-8")
            built = connections.build_request(method, path, content=content, headers=given)
            return await connections.send(built, stream=True)
        own = {name.lower() for name, _ in headers}
        added = [one for one in self._headers_for(address).items() if one[0].lower() not in own]
        url = address.base_url.rstrip("/") + path
        return await straight.ask(method, url, [*headers, *added], content, self._limits_s)

    def to(self, address: Address) -> httpx2.AsyncClient:
        """Return the pool of an address."""
        if address.transport is not None:
            # Nothing is opened, and there are as many as models.
            return httpx2.AsyncClient(
                base_url=address.base_url,
                timeout=self._timeout_s,
                transport=address.transport,
                trust_env=False,
            )
        if address not in self._pools:
            self._pools[address] = self._open(address)
        return self._pools[address]

    async def aclose(self) -> None:
        """Close all of them."""
        self._straight.clear()
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.aclose()

    def _open(self, address: Address) -> httpx2.AsyncClient:
        limits = httpx2.Limits(
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=CLIENT_KEEP_ALIVE_S,
        )
        timeout = httpx2.Timeout(**self._limits_s)
        straight = _straight(address, limits)
        if straight is not None:
            self._straight[address] = straight
        return httpx2.AsyncClient(
            base_url=address.base_url,
            timeout=timeout,
            limits=limits,
            transport=straight,
            # Looking for proxies and certificates takes 20 ms.
            trust_env=straight is None,
            headers=self._headers_for(address),
        )

    def _headers_for(self, address: Address) -> dict[str, str]:
        """Return what every request has; the socket of a local worker asks for no key."""
        return self._headers if address.uds is None else _PLAIN


def _straight(address: Address, limits: httpx2.Limits) -> "AiohttpTransport | None":
    """Return what is faster than httpx2's own connections, where nothing but a socket is needed."""
    url = httpx2.URL(address.base_url)
    if address.uds is None and (url.scheme != "http" or _has_proxy(url.host)):
        return None
    from sie_mcp.aiohttp_transport import AiohttpTransport  # noqa: PLC0415  (its import: .1 s)

    return AiohttpTransport(limits, address.uds)


def _has_proxy(host: str) -> bool:
    """Whether the environment names a proxy on the way to a host."""
    proxies = urllib.request.getproxies()
    return bool(proxies.keys() & {"http", "all"}) and not urllib.request.proxy_bypass(host)


def connection_error(error: httpx2.RequestError, address: Address) -> SieError:
    """Say what a failure of the connection means: WorkerUnavailable where no worker is there now.

    WorkerLost where it went while it had the request.

    A worker that is silent for too long is busy, not gone: to ask again would double its work.
    """
    if isinstance(error, httpx2.PoolTimeout):
        return QueueFull(f"more than {MAX_CONNECTIONS} calls are open already; call again")
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
        return WorkerUnavailable(
            f"{address} cannot be reached ({error}); call again", retry_after_s=0.2
        )
    if isinstance(error, httpx2.TimeoutException):
        return DeadlineExceeded(
            f"{address} did not answer in time (request_timeout_s); send fewer items at once"
        )
    return WorkerLost(
        f"{address} stopped answering ({type(error).__name__}); call again", retry_after_s=0.1
    )
