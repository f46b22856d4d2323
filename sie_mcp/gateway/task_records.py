"""What is known of a task, as it lies in the store and goes over the wire, and who may see it.

Whoever runs a task keeps saying so; a task of which nobody says so any more has failed, since the
process that ran it is gone.
"""

import hashlib
import secrets
from datetime import UTC, datetime
from typing import Any, Literal

import pydantic
from mcp.types import INTERNAL_ERROR
from pydantic.alias_generators import to_camel

from sie_mcp.tools.stores import Store

Status = Literal["working", "completed", "failed", "cancelled"]

POLL_INTERVAL_MS = 2_000
# A runner that was not heard for so long is gone.
LEASE_S = 20.0
MAX_ID_CHARS = 100


class TaskRecord(pydantic.BaseModel):
    """A task; `result` is there when it is completed, `error` when it has failed."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)

    task_id: str
    status: Status = "working"
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int
    poll_interval_ms: int = POLL_INTERVAL_MS
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        """Return the fields as the protocol names them."""
        return self.model_dump(by_alias=True, exclude_none=True)


class TaskBook:
    """The tasks in a store. A task is found by its id and its owner only.

    Args:
        ttl_s: How long a task is kept after it was last written.
    """

    def __init__(self, store: Store, *, ttl_s: float) -> None:
        self._store = store
        self._ttl_s = ttl_s

    def new(self, task_id: str, age_s: float) -> TaskRecord:
        """Return the record of a task that began `age_s` ago; nothing is written."""
        now = _now()
        return TaskRecord(
            task_id=task_id,
            created_at=now,
            last_updated_at=now,
            ttl_ms=self.ttl_ms(age_s),
        )

    def ttl_ms(self, age_s: float) -> int:
        """Return for how long from its beginning a task that is written now is kept."""
        return round((age_s + self._ttl_s) * 1_000)

    async def write(self, record: TaskRecord, owner: str, age_s: float) -> None:
        """Keep a record, from now on for the whole time.

        Raises:
            StoreUnavailable: the store does not answer; so for every method.
        """
        record.last_updated_at = _now()
        record.ttl_ms = max(record.ttl_ms, self.ttl_ms(age_s))
        data = record.model_dump_json(exclude_none=True).encode()
        await self._store.put(_key(record.task_id, owner), data, self._ttl_s)

    async def read(self, task_id: str, owner: str) -> TaskRecord | None:
        """Return a task of this owner; None if there is none, or not any more."""
        if len(task_id) > MAX_ID_CHARS:
            return None
        data = await self._store.get(_key(task_id, owner))
        if data is None:
            return None
        record = TaskRecord.model_validate_json(data)
        if record.status == "working" and await self._store.get(f"runs:{task_id}") is None:
            record.status = "failed"
            record.status_message = "the process that ran it has ended; call the tool again"
            record.error = {"code": INTERNAL_ERROR, "message": record.status_message}
        return record

    async def forget(self, task_id: str, owner: str) -> None:
        """Drop a task."""
        await self._store.delete(_key(task_id, owner))

    async def runs(self, task_id: str) -> None:
        """Say that this process runs a task."""
        await self._store.put(f"runs:{task_id}", b"", LEASE_S)

    async def ask_to_cancel(self, task_id: str) -> None:
        """Tell whoever runs a task that it is not wanted any more."""
        await self._store.put(f"cancel:{task_id}", b"", self._ttl_s)

    async def is_asked_to_cancel(self, task_id: str) -> bool:
        """Whether somebody did."""
        return await self._store.get(f"cancel:{task_id}") is not None


def new_id() -> str:
    """Return an id that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _key(task_id: str, owner: str) -> str:
    place = hashlib.blake2b(f"{owner}\0{task_id}".encode(errors="replace"), digest_size=16)
    return f"task:{place.hexdigest()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
