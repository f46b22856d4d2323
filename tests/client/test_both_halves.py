"""The two halves of the programs' client: the same methods, and lives that end by themselves."""

import gc
import inspect
import weakref

import anyio.to_thread
import numpy as np
import pytest

from sie_mcp.client import AsyncClient, Client, blocking
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio


def public(cls: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in vars(cls).items()
        if not name.startswith("_")
    }


def test_both_halves_have_the_same_methods_arguments_and_documentation():
    waiting, awaiting = public(Client), public(AsyncClient)
    awaiting["close"] = awaiting.pop("aclose")
    assert waiting == awaiting
    assert inspect.signature(Client) == inspect.signature(AsyncClient)
    for name in waiting.keys() - {"close"}:
        assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__


def test_many_threads_share_one_client_and_it_ends_with_its_block(worker):
    async def drive() -> None:
        async with worker.running() as url:
            with Client(url) as client:
                async with anyio.create_task_group() as group:
                    for number in range(8):
                        group.start_soon(ask, client, number)

    async def ask(client: Client, number: int) -> None:
        found = await anyio.to_thread.run_sync(client.embed, [str(number)], "toy")
        np.testing.assert_array_equal(found, [[number, 1]])

    anyio.run(drive)
    assert len(worker.seen) == 8


async def test_a_client_that_nobody_closes_is_closed_when_it_is_gone(url, recwarn):
    client = Client(url)
    await anyio.to_thread.run_sync(client.embed, "1", "toy")
    inner = weakref.ref(client._inner)
    del client
    await until(lambda: gc.collect() >= 0 and inner() is None)
    assert not [one for one in recwarn if one.category is ResourceWarning]


async def test_garbage_may_be_collected_in_the_thread_of_the_clients_loop(url, recwarn):
    held = [Client(url)]
    await anyio.to_thread.run_sync(held[0].embed, "1", "toy")
    inner = weakref.ref(held[0]._inner)
    await anyio.to_thread.run_sync(blocking._portal().call, held.clear)
    await until(lambda: gc.collect() >= 0 and inner() is None)
    assert not [one for one in recwarn if one.category is ResourceWarning]
