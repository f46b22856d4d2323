"""Taking messages of a JetStream consumer, without waiting for a batch to fill.

A fetch of the client's own asks for a batch and waits for all of it, which costs its timeout
whenever less is there. Here one message is waited for, and then what lies there is taken at once.
"""

import json
import logging
import time
from collections.abc import Mapping

import anyio
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from sie_mcp.broker.broker import Delivery
from sie_mcp.broker.names import Kind, Lane, consumer_of, stream_of

logger = logging.getLogger(__name__)

# The broker's word that nothing is there comes at once; after this it does not come.
ANSWER_S = 2.0
# A stream or a consumer that is not there may come.
PAUSE_S = 0.2
_NOTHING = "404"
_OVER = "408"


class NatsDelivery:
    """A message in hand."""

    def __init__(self, message: Msg) -> None:
        self._message = message
        self.data: bytes = message.data
        self.headers: Mapping[str, str] = message.headers or {}
        self.times: int = message.metadata.num_delivered or 1
        stamp = message.metadata.timestamp
        self.age_s: float = max(time.time() - stamp.timestamp(), 0.0)

    async def done(self) -> None:
        """Have the broker forget it."""
        await self._tell(self._message.ack)

    async def in_work(self) -> None:
        """Say that it is being worked on."""
        await self._tell(self._message.in_progress)

    async def hand_back(self) -> None:
        """Let another worker have it now."""
        await self._tell(self._message.nak)

    async def _tell(self, word) -> None:  # type: ignore[no-untyped-def]
        try:
            await word()
        except nats.errors.Error as error:
            # It comes again, and is then known or run once more.
            logger.warning("the broker was not told of a message error=%s", type(error).__name__)


class NatsPull:
    """One lane of a model."""

    def __init__(self, client: Client, kind: Kind, pool: str, lane: Lane, token: str) -> None:
        self._client = client
        prefix = "$JS.API.CONSUMER.MSG.NEXT"
        self._next = f"{prefix}.{stream_of(kind, pool)}.{consumer_of(lane, token)}"
        self._inbox = client.new_inbox()
        self._number = 0
        self._subscription: Subscription | None = None

    async def open(self) -> None:
        """Begin to listen."""
        self._subscription = await self._client.subscribe(f"{self._inbox}.*")

    async def first(self, wait_s: float) -> Delivery | None:
        """Return one message as soon as there is one."""
        reply = await self._ask({"batch": 1, "expires": int(wait_s * 1e9)})
        return await self._hear(reply, wait_s + ANSWER_S)

    async def more(self, most: int) -> list[Delivery]:
        """Return what lies there now."""
        reply = await self._ask({"batch": most, "no_wait": True})
        found: list[Delivery] = []
        while len(found) < most:
            delivery = await self._hear(reply, ANSWER_S)
            if delivery is None:
                break
            found.append(delivery)
        return found

    async def aclose(self) -> None:
        """Stop listening."""
        if self._subscription is None:
            return
        try:
            await self._subscription.unsubscribe()
            while self._subscription.pending_msgs:
                message = await self._subscription.next_msg(timeout=ANSWER_S)
                if _status(message) is None:
                    await message.nak()
        except nats.errors.Error:
            return  # The broker hands them out again by itself.

    async def _ask(self, wish: dict[str, object]) -> str:
        self._number += 1
        reply = f"{self._inbox}.{self._number}"
        try:
            await self._client.publish(self._next, json.dumps(wish).encode(), reply)
        except nats.errors.Error:
            await anyio.sleep(PAUSE_S)
        return reply

    async def _hear(self, reply: str, wait_s: float) -> Delivery | None:
        """Return the next message; None at the broker's word that none comes for this wish."""
        assert self._subscription is not None
        while True:
            try:
                message = await self._subscription.next_msg(timeout=wait_s)
            except nats.errors.TimeoutError:
                return None
            except nats.errors.Error:
                await anyio.sleep(PAUSE_S)
                return None
            status = _status(message)
            if status is None:
                return NatsDelivery(message)
            if message.subject == reply:
                if status not in (_NOTHING, _OVER):
                    await anyio.sleep(PAUSE_S)
                return None


def _status(message: Msg) -> str | None:
    """Return the broker's word where it is no message: 404 nothing there, 408 time is over."""
    headers = message.headers or {}
    return headers.get("Status") if not message.data else None
