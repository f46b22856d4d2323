"""What gateways and workers ask of a broker. Knows no client of one.

Every method may raise BrokerUnavailable: the broker does not answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from sie_mcp.broker.names import Kind, Lane

Heard = Callable[[bytes, Mapping[str, str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What streams may hold, and for how long.

    Attributes:
        max_messages: In one stream; beyond it requests are refused.
        max_bytes: The same, of bytes.
        replicas: Of streams on disk.
        ack_wait_s: What a worker does not speak of for so long goes to another.
        job_ttl_s: How long a job may wait, and how long its result is kept.
    """

    max_messages: int = 100_000
    max_bytes: int = 1024**3
    replicas: int = 1
    ack_wait_s: float = 30.0
    job_ttl_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message lies."""

    stream: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """A job's record as it was read."""

    value: bytes
    revision: int


class Delivery(Protocol):
    """A message that a worker has in hand.

    Attributes:
        data: Its bytes.
        headers: Its headers.
        times: How often it was handed out.
        age_s: How long ago it was put there.
    """

    data: bytes
    headers: Mapping[str, str]
    times: int
    age_s: float

    async def done(self) -> None:
        """Have the broker forget it."""

    async def in_work(self) -> None:
        """Say that it is being worked on."""

    async def hand_back(self) -> None:
        """Let another worker have it now."""


class Pull(Protocol):
    """Takes messages of one lane."""

    async def first(self, wait_s: float) -> Delivery | None:
        """Return one as soon as there is one; None when there was none for so long."""

    async def more(self, most: int) -> list[Delivery]:
        """Return what is there now, at most so many; waits for none to come."""

    async def aclose(self) -> None:
        """Take no more; what came meanwhile is handed back."""


class Broker(Protocol):
    """A broker as both sides see it."""

    bounds: Bounds

    @property
    def is_up(self) -> bool:
        """Whether it can be reached now."""

    @property
    def inline_bytes(self) -> int:
        """The largest message that it takes."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep up the connection to it; a broker that is away is tried again and again."""

    def at_each_start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done whenever the connection is there, or there again."""

    async def put(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Place:
        """Put a message into a stream; the same id a second time is put once.

        Raises:
            BacklogFull: the stream holds as much as it may.
        """

    async def remove(self, place: Place) -> None:
        """Take a message out that no worker shall have; none if it is gone already."""

    async def say(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Tell those that listen; nobody need."""

    async def hear(self, subject: str, heard: Heard) -> None:
        """Have what is said on a subject handled, from now on."""

    def inbox(self) -> str:
        """Return a subject that nobody else has."""

    async def keep(self, kind: Kind, name: str, data: bytes) -> None:
        """Keep a body that is too large for a message."""

    async def kept(self, kind: Kind, name: str) -> bytes | None:
        """Return it; None if it is gone."""

    async def forget(self, kind: Kind, name: str) -> None:
        """Drop it, whether it is there or not."""

    async def new_record(self, name: str, value: bytes) -> bool:
        """Write the first record of a name; False where there is one."""

    async def record(self, name: str) -> Record | None:
        """Return the newest record of a name."""

    async def next_record(self, name: str, value: bytes, after: Record) -> bool:
        """Write a record in place of another; False where that is not the newest any more."""

    async def prepare(self, pool: str) -> None:
        """Make a pool's streams, or bring them up to the bounds. A gateway's to do."""

    async def prepare_model(self, pool: str, token: str, *, stays: bool = False) -> None:
        """Make the consumers of a model. They go when unused for long, unless they stay."""

    async def backlog(self, pool: str) -> dict[str, int]:
        """Return how many requests of a pool wait or run, by token."""

    async def pull(self, kind: Kind, pool: str, lane: Lane, token: str) -> Pull:
        """Begin to take messages of a lane."""

    async def next_death(self, pool: str, wait_s: float) -> "Death | None":
        """Return a message that was handed out too often, once among all that ask."""


class Death(Protocol):
    """A message that the broker handed out too often and will not again.

    Attributes:
        data: Its bytes; empty if it is gone.
        headers: Its headers.
        subject: Where it was put.
        times: How often it was handed out.
    """

    data: bytes
    headers: Mapping[str, str]
    subject: str
    times: int

    async def settle(self) -> None:
        """Forget it, now that it is buried and its caller knows."""
