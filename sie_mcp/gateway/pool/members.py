"""Which workers there are: a list that was given, or what a name resolves to. Neither asks them.

`service_members` is a third way, by the API of Kubernetes.
"""

import socket
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import anyio

from sie_mcp.connection import Address
from sie_mcp.errors import SettingError

DNS_SCHEME = "dns"
MAX_MEMBERS = 1_024


class Members(Protocol):
    """Says which workers there are."""

    async def now(self) -> tuple[Address, ...]:
        """Return all of them. May be cancelled.

        Raises:
            OSError: they cannot be found out at the moment; those of before still hold.
        """

    async def follow(self, changed: Callable[[], None]) -> None:
        """Hear of changes until cancelled, and tell; return where only `now` finds out."""


class AskedMembers:
    """Members that nobody tells of: they are asked for."""

    async def follow(self, changed: Callable[[], None]) -> None:
        """Do nothing."""


class ListedMembers(AskedMembers):
    """A list that never changes."""

    def __init__(self, urls: Sequence[str]) -> None:
        unique = dict.fromkeys(url.rstrip("/") for url in urls)
        self._addresses = tuple(Address(url) for url in unique)

    async def now(self) -> tuple[Address, ...]:
        """Return the list."""
        return self._addresses


class NamedMembers(AskedMembers):
    """Every address of a name: a headless Service of Kubernetes has one for each ready pod.

    Args:
        host: The name.
        port: Of every worker.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def now(self) -> tuple[Address, ...]:
        """Ask the resolver; a name without addresses is a pool without workers."""
        try:
            found = await anyio.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                return ()
            raise
        hosts = sorted({str(sockaddr[0]) for *_, sockaddr in found})[:MAX_MEMBERS]
        return tuple(Address(f"http://{_in_url(host)}:{self._port}") for host in hosts)


def make_members(workers: Sequence[str]) -> Members:
    """Return the members of a setting: URLs, or one `dns://host:port`.

    Raises:
        SettingError: none of the two.
    """
    schemes = {urlsplit(one).scheme for one in workers}
    if schemes and schemes <= {"http", "https"}:
        return ListedMembers(workers)
    if schemes == {DNS_SCHEME} and len(workers) == 1:
        url = urlsplit(workers[0])
        if url.hostname and url.port:
            return NamedMembers(url.hostname, url.port)
    raise SettingError(
        f"workers {', '.join(workers)!r}: give http://host:port of each, with commas between, or "
        "dns://host:port for every address of a name"
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
