"""What a pool knows of its workers: real ones, asked over HTTP, and accounts read into it."""

import math

import anyio
import pytest

from sie_mcp.connection import Connections
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.members import ListedMembers
from sie_mcp.gateway.pool.watch import Known, Watch, _describe, key_of
from sie_mcp.wire_memory import DeviceMemory, HostMemory, HostModel, MemoryAccount, ModelMemory

pytestmark = pytest.mark.anyio


def model(name: str, state: str = "loaded", unused_s: float = 0.0, **more) -> ModelMemory:
    return ModelMemory(
        name=name, device="cpu", state=state, size_bytes=100, unused_s=unused_s, **more
    )


def account(*models: ModelMemory, free: int = 1_000, host: tuple[str, ...] = ()) -> MemoryAccount:
    copies = [HostModel(name=name, size_bytes=100) for name in host]
    device = DeviceMemory(
        device="cpu",
        budget_bytes=1_000,
        reserved_bytes=0,
        resident_bytes=0,
        free_bytes=free,
        models=list(models),
        host=HostMemory(budget_bytes=0, resident_bytes=0, models=copies),
    )
    return MemoryAccount(devices=[device])


def known(read: MemoryAccount) -> Known:
    one = Known(address=None)  # type: ignore[arg-type]
    _describe(one, read)
    return one


def test_an_account_says_what_is_there_near_and_coming():
    one = known(account(model("a"), model("b", "loading"), model("a + l"), host=("a", "c")))
    assert one.resident == {Key("a"), Key("a", "l")}
    assert one.loading == {Key("b")}
    assert one.nearby == {Key("a"), Key("c")}


def test_a_lora_is_told_from_its_model():
    assert key_of("org/base + org/lora") == Key("org/base", "org/lora")
    assert key_of("org/a+b") == Key("org/a+b")


@pytest.mark.parametrize(
    ("read", "room", "idle_s"),
    [
        (account(), math.inf, 0.0),
        (account(model("a"), free=250), 2.5, 0.0),
        (account(model("a", unused_s=3.0), model("b", unused_s=7.0), free=99), 0.99, 7.0),
        (account(model("a", unused_s=3.0), model("b", unused_s=7.0, pinned=True), free=0), 0, 3.0),
        (account(model("a", unused_s=3.0, users=1), free=0), 0, 0.0),
    ],
)
def test_a_workers_room_and_what_it_used_longest_ago(read, room, idle_s):
    assert (known(read).room, known(read).idle_s) == (room, idle_s)


def test_what_it_has_loaded_since_takes_room_once():
    one = known(account(model("a"), model("b", "loading"), free=300))
    one.has_loaded(Key("c"))
    one.has_loaded(Key("c"))
    one.has_loaded(Key("b"))  # Its bytes are counted since it began.
    assert one.room == 2.0
    assert one.resident == {Key("a"), Key("b"), Key("c")}


async def test_a_worker_that_does_not_answer_is_known_and_not_ready():
    told: list[int] = []
    connections = Connections(timeout_s=2.0)
    watch = Watch(ListedMembers(["http://127.0.0.1:9"]), connections, lambda: told.append(1))
    with anyio.fail_after(20):
        await watch.look()
    assert [one.is_ready for one in watch.known.values()] == [False]
    assert told
    await connections.aclose()


class Leaving(ListedMembers):
    """A list that gets shorter, then cannot be read."""

    def __init__(self) -> None:
        super().__init__([])
        self.urls = ["http://127.0.0.1:9", "http://127.0.0.2:9"]
        self.is_broken = False

    async def now(self):
        if self.is_broken:
            raise OSError("no resolver")
        return await ListedMembers(self.urls).now()


async def test_members_come_and_go_and_stay_while_nobody_can_say():
    members = Leaving()
    connections = Connections(timeout_s=2.0)
    watch = Watch(members, connections, lambda: None)
    with anyio.fail_after(30):
        await watch.look()
        assert len(watch.known) == 2
        members.urls.pop()
        await watch.look()
        assert list(watch.known) == ["http://127.0.0.1:9"]
        members.is_broken = True
        await watch.look()
        assert list(watch.known) == ["http://127.0.0.1:9"]
    await connections.aclose()
