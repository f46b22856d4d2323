"""Buries what ended its workers time and again, and tells its caller.

Lives on one event loop; of several gateways one gets each.
"""

import logging

import anyio

from sie_mcp.broker.broker import Broker, Death
from sie_mcp.broker.messages import error_answer, name_of
from sie_mcp.broker.names import Kind, token_in
from sie_mcp.broker.settling import bury, settle
from sie_mcp.errors import InferenceError, SieError

logger = logging.getLogger(__name__)

LOOK_S = 10.0
PAUSE_S = 1.0


class Burier:
    """Of one pool.

    Args:
        broker: That says what it will not hand out again.
        pool: The pool.
    """

    def __init__(self, broker: Broker, pool: str) -> None:
        self._broker = broker
        self._pool = pool

    async def run(self) -> None:
        """Bury until cancelled."""
        while True:
            try:
                await self.once(LOOK_S)
            except SieError as error:
                logger.debug("nothing is buried now: %s", error)
                await anyio.sleep(PAUSE_S)

    async def once(self, wait_s: float) -> bool:
        """Bury one; False where there was none for so long."""
        death = await self._broker.next_death(self._pool, wait_s)
        if death is None:
            return False
        kind: Kind = "jobs" if death.subject.startswith("sie.jobs.") else "calls"
        name = name_of(death.headers) or death.subject
        logger.error("a request is given up pool=%s runs=%d id=%s", self._pool, death.times, name)
        await bury(
            self._broker,
            self._pool,
            token_in(death.subject),
            death.data,
            death.headers,
            name=f"{name}.dead",
            reason="runs",
            why=_why(death),
        )
        error = InferenceError(
            "the workers that ran this request ended or fell silent, time and again; it is not "
            "tried any more; send its items in smaller requests to find the one at fault"
        )
        await settle(self._broker, kind, death.headers, error_answer(error))
        await death.settle()
        return True


def _why(death: Death) -> str:
    return f"handed out {death.times} times from {death.subject} and never answered"
