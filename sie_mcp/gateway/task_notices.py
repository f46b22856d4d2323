"""News of tasks for a client that listens, so that it need not ask: `notifications/tasks`.

The SDK's own listening knows of lists only; this is a middleware in front of it. States are read
from the book, so that a task is heard of whichever replica runs it.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

import anyio
import pydantic
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ServerNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
)

from sie_mcp.errors import StoreUnavailable
from sie_mcp.gateway.hang_up import unless_gone
from sie_mcp.gateway.task_records import TaskBook, TaskRecord
from sie_mcp.gateway.tasks import IDENTIFIER, VERSIONS, RequestContext
from sie_mcp.tools.context import owner_name

METHOD = "subscriptions/listen"
# As often as whoever runs a task writes its state.
LOOK_EVERY_S = 1.0
# Each look reads every one of them, from a store that may be far away.
MAX_TASKS = 32
# To one replica at a time.
MAX_LISTENERS = 64


class TaskNotification(pydantic.BaseModel):
    """A task's state, as `tasks/get` answers it."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class TaskNotices:
    """Serves `subscriptions/listen` with `taskIds`; without them it is not there, as before.

    Args:
        book: Where the states are.
    """

    def __init__(self, book: TaskBook) -> None:
        self._book = book
        self._num_listeners = 0

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Tell of every change until all of the tasks have ended, or nobody listens any more."""
        task_ids = _asked_for(ctx)
        if task_ids is None:
            return await call_next(ctx)
        require_client_extension(ctx, IDENTIFIER)
        _check(task_ids)
        if self._num_listeners >= MAX_LISTENERS:
            raise MCPError(
                code=INTERNAL_ERROR, message="too many listen already; ask with tasks/get"
            )
        self._num_listeners += 1
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        try:
            await unless_gone(ctx.request, lambda: self._tell(ctx, task_ids, meta))
        except StoreUnavailable as error:
            raise MCPError(code=INTERNAL_ERROR, message=str(error)) from error
        finally:
            self._num_listeners -= 1
        return {"resultType": "complete", "_meta": meta}

    async def _tell(self, ctx: RequestContext, task_ids: list[str], meta: dict[str, Any]) -> bool:
        """Send the states that there are, and then those that change."""
        records = await self._read(ctx, task_ids)
        await _acknowledge(ctx, list(records), meta)
        told: dict[str, tuple[str, str | None]] = {}
        while records:
            for task_id, record in records.items():
                state = (record.status, record.status_message)
                if told.get(task_id) != state:
                    told[task_id] = state
                    await _send(ctx, TaskNotification(params={**record.wire(), "_meta": meta}))
            working = [one for one, record in records.items() if record.status == "working"]
            if working:
                await anyio.sleep(LOOK_EVERY_S)
            records = await self._read(ctx, working)
        return True

    async def _read(self, ctx: RequestContext, task_ids: list[str]) -> dict[str, TaskRecord]:
        """Return the caller's tasks that there still are."""
        owner = owner_name(ctx.request)
        found = {task_id: await self._book.read(task_id, owner) for task_id in task_ids}
        return {task_id: record for task_id, record in found.items() if record is not None}


def _asked_for(ctx: RequestContext) -> list[str] | None:
    """Return the tasks to tell of; None for any other request."""
    if ctx.method != METHOD or ctx.protocol_version not in VERSIONS or ctx.request_id is None:
        return None
    wanted = (ctx.params or {}).get("notifications")
    return wanted.get("taskIds") if isinstance(wanted, Mapping) else None


def _check(task_ids: object) -> None:
    is_list = isinstance(task_ids, list) and all(isinstance(one, str) for one in task_ids)
    if not is_list or not 0 < len(cast(list[str], task_ids)) <= MAX_TASKS:
        raise MCPError(
            code=INVALID_PARAMS, message=f"taskIds must be a list of 1 to {MAX_TASKS} task ids"
        )


async def _acknowledge(ctx: RequestContext, task_ids: list[str], meta: dict[str, Any]) -> None:
    """Say which tasks will be told of."""
    # The SDK's class takes what extensions add to it.
    honoured = SubscriptionFilter.model_validate({"taskIds": task_ids})
    params = SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
    await _send(ctx, SubscriptionsAcknowledgedNotification(params=params))


async def _send(ctx: RequestContext, notification: object) -> None:
    """Send on the stream of the request."""
    # The SDK sends whatever has a method and params; its type lists what it has itself.
    await ctx.session.send_notification(
        cast(ServerNotification, notification), related_request_id=ctx.request_id
    )
