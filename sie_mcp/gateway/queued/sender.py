"""Sends requests by the broker and waits for their answers; each is answered once.

Lives on one event loop. Knows the broker and messages; knows neither HTTP nor who pulls.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from sie_mcp import metrics
from sie_mcp.broker.broker import Broker, Place
from sie_mcp.broker.messages import (
    BODY,
    DEADLINE,
    ID,
    REPLY,
    Answer,
    Call,
    pack,
    unpack_answer,
)
from sie_mcp.broker.names import Kind, cancel_subject, subject_of
from sie_mcp.errors import BrokerUnavailable, DeadlineExceeded, SieError

logger = logging.getLogger(__name__)

# A worker that knows the deadline answers with better words than our silence.
GRACE_S = 1.0


@dataclass(slots=True, eq=False)
class _Sent:
    """A request that waits for its answer."""

    subject: str
    data: bytes
    headers: dict[str, str]
    came: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None
    place: Place | None = None
    body: str | None = None


class Sender:
    """One gateway's requests.

    Args:
        broker: That they go by.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sent: dict[str, _Sent] = {}
        self._inbox = ""

    async def start(self) -> None:
        """Listen for answers; what waits for one is sent again: a broker may have lost it.

        One that still has it sees by its id that it is the same.
        """
        if not self._inbox:
            inbox = self._broker.inbox()
            await self._broker.hear(inbox, self._hear)
            self._inbox = inbox
        for sent in list(self._sent.values()):
            sent.place = await self._broker.put(sent.subject, sent.data, sent.headers)

    async def call(self, pool: str, token: str, call: Call, timeout_s: float) -> Answer:
        """Return a worker's answer.

        Args:
            pool: Whose workers may answer.
            token: Of the model.
            call: What is asked.
            timeout_s: How long the caller waits.

        Raises:
            BacklogFull: too much waits already.
            BrokerUnavailable: the broker does not answer.
            DeadlineExceeded: no worker answered in time.
        """
        if not self._inbox:
            raise BrokerUnavailable("the broker was not reached yet; call again")
        name = uuid.uuid4().hex
        headers = {ID: name, REPLY: self._inbox, DEADLINE: f"{time.time() + timeout_s:.3f}"}
        data = await put_body(self._broker, "calls", name, pack(call), headers)
        sent = _Sent(subject_of("calls", pool, "work", token), data, headers)
        self._sent[name] = sent
        outcome = "failed"
        try:
            sent.place = await self._broker.put(sent.subject, data, headers)
            with anyio.move_on_after(timeout_s + GRACE_S):
                await sent.came.wait()
            if sent.answer is None:
                raise DeadlineExceeded(
                    f"no worker of pool {pool} answered within {timeout_s:g} s; "
                    "give it more time, or send fewer items"
                )
            answer, outcome = await self._whole(sent), "answered"
        finally:
            del self._sent[name]
            metrics.QUEUE_CALLS.labels(pool, outcome).inc()
            if sent.answer is None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(GRACE_S):
                    await self._cancel(pool, name, sent)
        return answer

    async def _cancel(self, pool: str, name: str, sent: _Sent) -> None:
        """Have nobody run what nobody waits for."""
        try:
            await give_up(self._broker, pool, name, sent.place)
            if BODY in sent.headers:
                await self._broker.forget("calls", sent.headers[BODY])
        except SieError as error:
            # A worker sees by the deadline that it is too late.
            logger.debug("a request was not cancelled: %s", error)

    async def _hear(self, data: bytes, headers: Mapping[str, str]) -> None:
        """Take an answer: the first to a request that still waits."""
        sent = self._sent.get(headers.get(ID, ""))
        if sent is None or sent.answer is not None:
            return
        sent.body = headers.get(BODY)
        try:
            sent.answer = Answer(200, (), b"") if sent.body else unpack_answer(data)
        except SieError as error:
            logger.warning("an answer was not read: %s", error)
            return
        sent.came.set()

    async def _whole(self, sent: _Sent) -> Answer:
        """Return the answer, fetched from where it lies if it was too large."""
        assert sent.answer is not None
        if sent.body is None:
            return sent.answer
        data = await self._broker.kept("calls", sent.body)
        if data is None:
            raise BrokerUnavailable("the answer is gone from the broker; call again")
        await self._broker.forget("calls", sent.body)
        return unpack_answer(data)


async def put_body(
    broker: Broker, kind: Kind, name: str, data: bytes, headers: dict[str, str]
) -> bytes:
    """Return what a message should hold: its bytes, or none where they had to go elsewhere."""
    if len(data) <= broker.inline_bytes:
        return data
    await broker.keep(kind, name, data)
    headers[BODY] = name
    return b""


async def give_up(broker: Broker, pool: str, name: str, place: Place | None) -> None:
    """Take a request away from wherever it is: its stream, or a worker's hands."""
    if place is not None:
        await broker.remove(place)
    await broker.say(cancel_subject(pool), b"", {ID: name})
