"""A request in the hands of a worker that falls silent: it ends as lost, and only it."""

import anyio
import pytest

from sie_mcp.connection import ANYTHING, Address, one_try
from sie_mcp.errors import WorkerUnavailable
from sie_mcp.gateway.pool.in_hand import InHand

pytestmark = pytest.mark.anyio

ADDRESS, OTHER = Address("http://w0"), Address("http://w1")


class Noting:
    """An endpoint that notes how requests ended."""

    chooses = True

    def __init__(self) -> None:
        self.in_hand = InHand()
        self.ends: list[str] = []

    def held(self, address: Address, scope: anyio.CancelScope):
        return self.in_hand.held(address.base_url, scope)

    def done(self, address: Address, want=ANYTHING) -> None:
        self.ends.append(f"done {address.base_url}")

    async def lost(self, address: Address, want=ANYTHING) -> None:
        self.ends.append(f"lost {address.base_url}")


async def test_what_a_silent_worker_has_is_lost_and_what_others_have_goes_on():
    endpoint, finish = Noting(), anyio.Event()

    async def ask_other() -> None:
        async with one_try(endpoint, OTHER, ANYTHING):
            await finish.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(ask_other)
        with pytest.raises(WorkerUnavailable, match="silent"):
            async with one_try(endpoint, ADDRESS, ANYTHING):
                assert endpoint.in_hand.take_back(ADDRESS.base_url) == 1
                await anyio.sleep_forever()
        finish.set()
    assert endpoint.ends == ["lost http://w0", "done http://w1"]
    assert endpoint.in_hand.take_back(ADDRESS.base_url) == 0


async def test_a_caller_that_leaves_is_no_loss_even_of_a_silent_worker():
    endpoint = Noting()
    with anyio.CancelScope() as caller:
        async with one_try(endpoint, ADDRESS, ANYTHING):
            caller.cancel()
            await anyio.sleep_forever()
    assert endpoint.ends == ["done http://w0"]
    with anyio.CancelScope() as caller:
        async with one_try(endpoint, ADDRESS, ANYTHING):
            endpoint.in_hand.take_back(ADDRESS.base_url)
            caller.cancel()
            await anyio.sleep_forever()
    # Both at once: it has ended, once.
    assert endpoint.ends == ["done http://w0", "lost http://w0"]


async def test_an_answer_that_was_there_already_counts():
    endpoint = Noting()
    async with one_try(endpoint, ADDRESS, ANYTHING):
        endpoint.in_hand.take_back(ADDRESS.base_url)
    assert endpoint.ends == ["done http://w0"]
