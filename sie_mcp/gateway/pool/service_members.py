"""The workers of a Service as Kubernetes tells of them: heard of, not asked for again and again.

Lists once, then follows changes; lists again when it has missed some. What was known stays while
the API cannot be asked: workers are looked at themselves, and say whether they are there.
"""

import logging
import random
from collections.abc import Callable
from contextlib import aclosing

import anyio

from sie_mcp.connection import Address
from sie_mcp.gateway.pool.endpoint_slices import Service, Slice, workers_of
from sie_mcp.gateway.pool.kubernetes_api import (
    ApiError,
    ApiServer,
    Change,
    Expired,
    Session,
    change_version,
    session,
)

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
# 0.5 s, 1 s, 2 s … reaches the longest pause here.
MAX_DOUBLINGS = 6


class ServiceMembers:
    """The workers of a Service.

    Args:
        service: Which.
        server: The API.
        first_pause_s: After a first failure; each further doubles it. Some of it is chance, or all
            gateways would ask a server that comes back at once.
    """

    def __init__(
        self, service: Service, server: ApiServer, *, first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._service = service
        self._server = server
        self._first_pause_s = first_pause_s
        self._slices: dict[str, Slice] = {}
        self._workers: tuple[Address, ...] | None = None
        self._version = ""
        self._num_failures = 0

    async def now(self) -> tuple[Address, ...]:
        """Return those that were last heard of.

        Raises:
            OSError: nothing was heard yet.
        """
        if self._workers is None:
            raise OSError(f"{self._service.namespace}/{self._service.name} is not known yet")
        return self._workers

    async def follow(self, changed: Callable[[], None]) -> None:
        """Hear of changes until cancelled."""
        while True:
            pause_s = 0.0
            try:
                async with session(self._server, self._service) as asked:
                    if not self._version:
                        await self._list(asked, changed)
                    await self._watch(asked, changed)
            except ApiError as error:
                pause_s = self._pause_s(error)
                logger.warning(
                    "endpoint slices cannot be followed service=%s/%s again_s=%.1f error=%s",
                    self._service.namespace, self._service.name, pause_s, error,
                )  # fmt: skip
                if isinstance(error, Expired) or self._num_failures > 1:
                    self._version = ""
            await anyio.sleep(pause_s)

    async def _list(self, asked: Session, changed: Callable[[], None]) -> None:
        listed = await asked.list()
        self._slices = {one.metadata.name: one for one in listed.slices}
        self._version = listed.version
        self._tell(changed)

    async def _watch(self, asked: Session, changed: Callable[[], None]) -> None:
        """Follow one stream to its end.

        Raises:
            ApiError: it broke; or it ended at once with nothing said, which may go on for ever.
        """
        since_s = anyio.current_time()
        num_changes = 0
        async with aclosing(asked.watch(self._version)) as changes:
            async for change in changes:
                num_changes += 1
                self._num_failures = 0
                if change.type != "BOOKMARK":
                    self._apply(change)
                    self._tell(changed)
                self._version = change_version(change) or self._version
        if not num_changes and anyio.current_time() - since_s < self._first_pause_s:
            raise ApiError("the watch ended as soon as it began")
        self._num_failures = 0

    def _apply(self, change: Change) -> None:
        try:
            one = Slice.model_validate(change.object)
        except ValueError as error:
            raise ApiError(f"not an EndpointSlice: {error}") from error
        if change.type == "DELETED":
            self._slices.pop(one.metadata.name, None)
        else:
            self._slices[one.metadata.name] = one

    def _tell(self, changed: Callable[[], None]) -> None:
        before = {one.base_url for one in self._workers or ()}
        self._workers = workers_of(list(self._slices.values()), self._service.port)
        for one in self._workers:
            if one.base_url not in before:
                logger.info("a worker is there worker=%s zone=%s", one.base_url, one.zone)
        changed()

    def _pause_s(self, error: ApiError) -> float:
        """Return how long not to ask: at once after the first loss of what was known."""
        self._num_failures += 1
        if isinstance(error, Expired) and self._num_failures == 1:
            return 0.0
        doubled = self._first_pause_s * 2.0 ** min(self._num_failures - 1, MAX_DOUBLINGS)
        pause_s = max(min(doubled, MAX_PAUSE_S), min(error.retry_after_s, MAX_PAUSE_S))
        return pause_s * random.uniform(1.0, 1.5)
