"""What JetStream says of messages that it will not hand out again, and those messages."""

import json
from collections.abc import Mapping
from contextlib import suppress

from nats.aio.msg import Msg
from nats.errors import TimeoutError as NothingCame
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from sie_mcp.broker.names import deaths_stream
from sie_mcp.broker.nats_configs import DEATHS_CONSUMER
from sie_mcp.broker.nats_link import Link


class NatsDeath:
    """One of them."""

    def __init__(
        self,
        streams: JetStreamContext,
        advice: Msg,
        *,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
    ) -> None:
        said = json.loads(advice.data)
        self._streams = streams
        self._advice = advice
        self._stream: str = said["stream"]
        self._number: int = said["stream_seq"]
        self.times: int = said["deliveries"]
        self.subject, self.data, self.headers = subject, data, headers

    async def settle(self) -> None:
        """Take it out of its stream, and then out of those that have to be buried."""
        with suppress(NotFoundError):
            await self._streams.delete_msg(self._stream, self._number)
        await self._advice.ack()


class DeathPull:
    """Those of one pool."""

    def __init__(self, link: Link, pool: str) -> None:
        self._link = link
        self._stream = deaths_stream(pool)
        self._pull: JetStreamContext.PullSubscription | None = None

    async def next(self, wait_s: float) -> NatsDeath | None:
        """Return one; None if there was none for so long."""
        streams = self._link.streams
        if self._pull is None:
            self._pull = await streams.pull_subscribe_bind(
                consumer=DEATHS_CONSUMER, stream=self._stream
            )
        try:
            [advice] = await self._pull.fetch(1, wait_s)
        except (NothingCame, TimeoutError):
            return None
        said = json.loads(advice.data)
        try:
            message = await streams.get_msg(said["stream"], said["stream_seq"])
        except NotFoundError:
            await advice.ack()  # Its caller gave it up meanwhile.
            return None
        return NatsDeath(
            streams,
            advice,
            subject=message.subject or "",
            data=message.data or b"",
            headers=message.headers or {},
        )
