"""Who belongs to a pool, by a list or by a name."""

import socket

import pytest

from sie_mcp.connection import Address
from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.members import ListedMembers, NamedMembers, make_members

pytestmark = pytest.mark.anyio


async def test_a_list_is_kept_in_order_and_once_each():
    members = make_members(["http://a:1/", "http://b:2", "http://a:1"])
    assert await members.now() == (Address("http://a:1"), Address("http://b:2"))


async def test_a_name_is_asked_for_all_its_addresses():
    members = make_members(["dns://localhost:9000"])
    assert isinstance(members, NamedMembers)
    found = {one.base_url for one in await members.now()}
    assert "http://127.0.0.1:9000" in found
    assert found <= {"http://127.0.0.1:9000", "http://[::1]:9000"}


async def test_a_name_without_addresses_is_an_empty_pool_and_a_silent_resolver_is_not(monkeypatch):
    members = NamedMembers("workers.example", 9000)

    def failing(code: int):
        async def getaddrinfo(*_: object, **__: object) -> list[object]:
            raise socket.gaierror(code, "no")

        return getaddrinfo

    monkeypatch.setattr("anyio.getaddrinfo", failing(socket.EAI_NONAME))
    assert await members.now() == ()
    monkeypatch.setattr("anyio.getaddrinfo", failing(socket.EAI_AGAIN))
    with pytest.raises(OSError, match="no"):
        await members.now()


@pytest.mark.parametrize(
    "workers",
    [
        ["a:1"],
        ["ftp://a:1"],
        ["dns://a"],
        ["dns://a:1", "dns://b:1"],
        ["http://a:1", "dns://b:1"],
        [],
    ],
)
def test_what_is_no_list_of_workers_is_refused_with_what_would_be(workers):
    with pytest.raises(SettingError, match="give http://host:port of each"):
        make_members(workers)


def test_listed_members_are_a_list():
    assert isinstance(make_members(["https://a"]), ListedMembers)
