"""What is kept of a job: whose it is, how far, and its answer once there is one. Pure."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import msgpack
import pydantic

from sie_mcp.errors import SieError

# refused: its request did not get into a stream; it may be sent again.
State = Literal["waiting", "done", "cancelled", "refused"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job.

    Attributes:
        owner: Whoever may read it.
        pool: That it runs in.
        deadline_s: Seconds since 1970: after it nobody runs it.
        answer: A packed answer; empty until it is there, or where it lies apart.
        body: Where the answer lies apart.
    """

    state: State
    owner: str
    pool: str
    deadline_s: float
    answer: bytes = b""
    body: str | None = None

    def pack(self) -> bytes:
        """Return its bytes."""
        packed: bytes = msgpack.packb({name: getattr(self, name) for name in self.__slots__})
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read one.

        Raises:
            SieError: it is of another version.
        """
        try:
            values: dict[str, Any] = msgpack.unpackb(data)
            return pydantic.TypeAdapter(cls).validate_python(values)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise SieError("a job's record is of another version") from error

    def ended(self, answer: bytes, body: str | None) -> Self:
        """Return it with its answer."""
        return replace(self, state="done", answer=answer, body=body)

    def now(self, state: State) -> Self:
        """Return it in another state."""
        return replace(self, state=state)
