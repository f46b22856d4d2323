"""A broker on NATS JetStream (Apache-2.0): streams of work, a store of bodies, one of records.

Joins link, configurations and pulls to what both sides ask of a broker.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import NoReturn

from nats.aio.msg import Msg
from nats.js.api import StreamConfig
from nats.js.errors import (
    APIError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
    ObjectNotFoundError,
)

from sie_mcp.broker import nats_configs
from sie_mcp.broker.broker import Bounds, Death, Heard, Place, Pull, Record
from sie_mcp.broker.names import (
    JOBS_BUCKET,
    KINDS,
    LANES,
    Kind,
    Lane,
    bodies_bucket,
    deaths_stream,
    stream_of,
    subjects_of,
    token_in,
)
from sie_mcp.broker.nats_death import DeathPull
from sie_mcp.broker.nats_link import Link
from sie_mcp.broker.nats_pull import NatsPull
from sie_mcp.errors import BrokerUnavailable

# What headers take of a message.
HEADER_BYTES = 16 * 1024


class NatsBroker:
    """One server, or a cluster of them."""

    def __init__(self, uri: str, name: str, bounds: Bounds) -> None:
        self.bounds = bounds
        self._link = Link(uri, name)
        self._deaths: dict[str, DeathPull] = {}

    @property
    def is_up(self) -> bool:
        """Whether it can be reached now."""
        return self._link.is_up

    @property
    def inline_bytes(self) -> int:
        """The largest message that it takes."""
        return self._link.client.max_payload - HEADER_BYTES

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep up the connection."""
        return self._link.running()

    def at_each_start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done whenever the connection is there."""
        self._link.at_each_start(work)

    async def put(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Place:
        """Put a message into a stream."""
        with self._link.translated():
            told = await self._link.streams.publish(subject, data, headers=dict(headers))
        return Place(told.stream, told.seq)

    async def remove(self, place: Place) -> None:
        """Take a message out."""
        with self._link.translated(), suppress(NotFoundError, APIError):
            await self._link.streams.delete_msg(place.stream, place.number)

    async def say(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Tell those that listen."""
        with self._link.translated():
            await self._link.client.publish(subject, data, headers=dict(headers))

    async def hear(self, subject: str, heard: Heard) -> None:
        """Have what is said on a subject handled."""

        async def handle(message: Msg) -> None:
            await heard(message.data, message.headers or {})

        with self._link.translated():
            await self._link.client.subscribe(subject, cb=handle)

    def inbox(self) -> str:
        """Return a subject that nobody else has."""
        return self._link.client.new_inbox()

    async def keep(self, kind: Kind, name: str, data: bytes) -> None:
        """Keep a body that is too large for a message."""
        with self._link.translated():
            store = await self._link.streams.object_store(bodies_bucket(kind))
            await store.put(name, data)

    async def kept(self, kind: Kind, name: str) -> bytes | None:
        """Return it; None if it is gone."""
        with self._link.translated():
            store = await self._link.streams.object_store(bodies_bucket(kind))
            with suppress(ObjectNotFoundError):
                return (await store.get(name)).data
        return None

    async def forget(self, kind: Kind, name: str) -> None:
        """Drop it."""
        with self._link.translated(), suppress(ObjectNotFoundError):
            store = await self._link.streams.object_store(bodies_bucket(kind))
            await store.delete(name)

    async def new_record(self, name: str, value: bytes) -> bool:
        """Write the first record of a name."""
        with self._link.translated():
            records = await self._link.streams.key_value(JOBS_BUCKET)
            try:
                await records.create(name, value)
            except KeyWrongLastSequenceError:
                return False
        return True

    async def record(self, name: str) -> Record | None:
        """Return the newest record of a name."""
        with self._link.translated():
            records = await self._link.streams.key_value(JOBS_BUCKET)
            try:
                entry = await records.get(name)
            except KeyNotFoundError:
                return None
        return Record(entry.value or b"", entry.revision or 0)

    async def next_record(self, name: str, value: bytes, after: Record) -> bool:
        """Write a record in place of another."""
        with self._link.translated():
            records = await self._link.streams.key_value(JOBS_BUCKET)
            try:
                await records.update(name, value, last=after.revision)
            except KeyWrongLastSequenceError:
                return False
        return True

    async def prepare(self, pool: str) -> None:
        """Make a pool's streams, or bring them up to the bounds."""
        with self._link.translated():
            for kind in KINDS:
                await self._have(nats_configs.work_stream(kind, pool, self.bounds))
                bodies = nats_configs.bodies(kind, self.bounds)
                make = partial(self._link.streams.create_object_store, bodies_bucket(kind), bodies)
                await self._have_bucket(f"OBJ_{bodies.bucket}", make)
            await self._have(nats_configs.dead_stream(self.bounds))
            await self._have(nats_configs.deaths(pool))
            await self._link.streams.add_consumer(
                deaths_stream(pool), nats_configs.deaths_consumer()
            )
            records = nats_configs.records(self.bounds)
            await self._have_bucket(
                f"KV_{records.bucket}", lambda: self._link.streams.create_key_value(records)
            )

    async def prepare_model(self, pool: str, token: str, *, stays: bool = False) -> None:
        """Make the consumers of a model."""
        with self._link.translated():
            for kind in KINDS:
                for lane in LANES:
                    config = nats_configs.lane_consumer(
                        kind, pool, lane, token, self.bounds, stays=stays
                    )
                    await self._link.streams.add_consumer(stream_of(kind, pool), config)

    async def backlog(self, pool: str) -> dict[str, int]:
        """Return how many requests of a pool wait or run, by token."""
        found: dict[str, int] = {}
        with self._link.translated():
            for kind in KINDS:
                info = await self._link.streams.stream_info(
                    stream_of(kind, pool), subjects_filter=subjects_of(kind, pool)
                )
                for subject, count in (info.state.subjects or {}).items():
                    token = token_in(subject)
                    found[token] = found.get(token, 0) + count
        return found

    async def pull(self, kind: Kind, pool: str, lane: Lane, token: str) -> Pull:
        """Begin to take messages of a lane."""
        pull = NatsPull(self._link.client, kind, pool, lane, token)
        with self._link.translated():
            await pull.open()
        return pull

    async def next_death(self, pool: str, wait_s: float) -> Death | None:
        """Return a message that was handed out too often."""
        if pool not in self._deaths:
            self._deaths[pool] = DeathPull(self._link, pool)
        with self._link.translated():
            return await self._deaths[pool].next(wait_s)

    async def _have(self, config: StreamConfig) -> None:
        """Make a stream, or bring it up to its configuration."""
        assert config.name is not None
        try:
            await self._link.streams.stream_info(config.name)
        except NotFoundError:
            await self._link.streams.add_stream(config)
            return
        try:
            await self._link.streams.update_stream(config)
        except APIError as error:
            self._refuse(config.name, error)

    async def _have_bucket(self, stream: str, make: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._link.streams.stream_info(stream)
        except NotFoundError:
            await make()

    def _refuse(self, stream: str, error: APIError) -> NoReturn:
        raise BrokerUnavailable(
            f"stream {stream} cannot be made what it should be ({error.description}); delete it, "
            "or set it back",
            retry_after_s=10.0,
        ) from error
