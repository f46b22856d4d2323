"""EndpointSlices of a Service, and the workers that they name. Pure: asks nobody.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pydantic
from pydantic import Field

from sie_mcp.connection import Address
from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.members import MAX_MEMBERS

# Of several ports, the one that a worker of ours is found at.
USUAL_PORT = "http"
_FAMILIES = ("IPv4", "IPv6", "FQDN")
_SERVICE = re.compile(
    r"(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)"
    r"/(?P<name>[a-z]([-a-z0-9]{0,61}[a-z0-9])?)"
    r"(:(?P<port>[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?))?"
)


class Metadata(pydantic.BaseModel):
    """Which object it is, and of which state of the cluster."""

    name: str = ""
    version: str = Field(default="", alias="resourceVersion")


class Conditions(pydantic.BaseModel):
    """What is known of an endpoint; None: nobody says, which counts as good."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class SliceEndpoint(pydantic.BaseModel):
    """One pod; its addresses all lead to it."""

    addresses: list[str] = Field(min_length=1)
    conditions: Conditions = Conditions()
    zone: str | None = None


class SlicePort(pydantic.BaseModel):
    """A port that every endpoint of a slice has."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class Slice(pydantic.BaseModel):
    """A part of a Service's endpoints."""

    metadata: Metadata
    family: str = Field(alias="addressType")
    endpoints: list[SliceEndpoint] | None = None
    ports: list[SlicePort] | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A Service by its namespace and name, and the port of its workers by name or number."""

    namespace: str
    name: str
    port: str | int | None = None


def read_service(text: str) -> Service:
    """Read `namespace/name`, with `:port` behind it or not.

    Raises:
        SettingError: none.
    """
    found = _SERVICE.fullmatch(text)
    port = found["port"] if found else None
    if found is None or (port and port.isdecimal() and not 0 < int(port) < 65_536):
        raise SettingError(
            f"service {text!r}: give namespace/name of a Service, and where it has several ports "
            "namespace/name:port, with the port's name or number"
        )
    number = int(port) if port and port.isdecimal() else None
    return Service(found["namespace"], found["name"], number or port)


def workers_of(slices: Sequence[Slice], port: str | int | None) -> tuple[Address, ...]:
    """Return where requests may go, in an order of their own.

    Those that are ready; where nobody is, those that leave but still serve, as kube-proxy has it.
    A Service of two families names each pod in both: the first that has endpoints counts.

    Args:
        slices: All of the Service.
        port: By name or number; None: the only one, or the one named `http`.
    """
    for family in _FAMILIES:
        own = [one for one in slices if one.family == family and one.endpoints]
        if own:
            return _addresses(own, port, "ready") or _addresses(own, port, "leaving")
    return ()


def _addresses(
    slices: list[Slice], port: str | int | None, wanted: Literal["ready", "leaving"]
) -> tuple[Address, ...]:
    # While it moves from one slice to another an endpoint is in both.
    found = {
        address.base_url: address
        for one in slices
        for number in _port_of(one, port)
        for address in _in_slice(one, number, wanted)
    }
    return tuple(found[url] for url in sorted(found)[:MAX_MEMBERS])


def _in_slice(one: Slice, port: int, wanted: Literal["ready", "leaving"]) -> Iterator[Address]:
    for endpoint in one.endpoints or ():
        if _state(endpoint.conditions) == wanted:
            # The addresses of an endpoint are all the same pod: the first is as good as any.
            host = endpoint.addresses[0]
            in_url = f"[{host}]" if one.family == "IPv6" else host
            yield Address(f"http://{in_url}:{port}", zone=endpoint.zone)


def _state(conditions: Conditions) -> Literal["ready", "leaving", "away"]:
    if not conditions.terminating:
        return "away" if conditions.ready is False else "ready"
    return "leaving" if conditions.serving else "away"


def _port_of(one: Slice, port: str | int | None) -> list[int]:
    """Return the port of a slice's workers; none where it does not have that port."""
    if isinstance(port, int):
        return [port]
    ports = {each.name or "": each.port for each in one.ports or () if each.protocol != "UDP"}
    if port is None and len(ports) == 1:
        found = next(iter(ports.values()))
    else:
        found = ports.get(port or USUAL_PORT)
    return [found] if found else []
