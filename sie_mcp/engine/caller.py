"""Who asks, as the headers of a request say: priority, client, how long they wait.

Knows the headers' names and limits; knows nothing of queues or bodies.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sie_mcp.engine.tickets import PRIORITIES, Priority
from sie_mcp.errors import InvalidInput
from sie_mcp.local_models import LOCAL_MODELS_HEADER

MAX_CLIENT_CHARS = 64
# Clients are told apart by this many numbers at most; two of one number share a part.
NUM_CLIENTS = 1024
MAX_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of who asks.

    Attributes:
        client: A number of `NUM_CLIENTS`; None where the caller did not say who it is.
        timeout_s: How long it waits for the answer; None where it did not say.
        allows_local_models: Whether a gateway lets it name folders for models.
    """

    priority: Priority = "interactive"
    client: int | None = None
    timeout_s: float | None = None
    allows_local_models: bool = True


def read_caller(headers: Mapping[str, str]) -> Caller:
    """Read X-SIE-Priority, X-SIE-Client and X-SIE-Timeout; each may be missing.

    Raises:
        InvalidInput: one of them is wrong; the message names it.
    """
    return Caller(
        _priority(headers),
        _client(headers),
        read_seconds(headers, "X-SIE-Timeout"),
        headers.get(LOCAL_MODELS_HEADER, "yes").strip().lower() == "yes",
    )


def read_seconds(headers: Mapping[str, str], name: str) -> float | None:
    """Read a number of seconds, more than none and less than a day; None where it is missing.

    Raises:
        InvalidInput: naming the header and what it may be.
    """
    value = headers.get(name)
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError as error:
        raise InvalidInput(f"{name} {value[:40]!r} is not a number of seconds") from error
    if not 0 < seconds < MAX_SECONDS:
        raise InvalidInput(f"{name} {value[:40]!r} is not between 0 and {MAX_SECONDS} seconds")
    return seconds


def _priority(headers: Mapping[str, str]) -> Priority:
    value = headers.get("X-SIE-Priority", "interactive")
    for priority in PRIORITIES:
        if value.strip().lower() == priority:
            return priority
    raise InvalidInput(f"X-SIE-Priority {value[:40]!r} is none of {', '.join(PRIORITIES)}")


def _client(headers: Mapping[str, str]) -> int | None:
    value = headers.get("X-SIE-Client", "").strip()
    if not value:
        return None
    if len(value) > MAX_CLIENT_CHARS:
        raise InvalidInput(
            f"X-SIE-Client has {len(value)} characters, the limit is {MAX_CLIENT_CHARS}; "
            "a hash of a longer name would work"
        )
    digest = hashlib.blake2b(value.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % NUM_CLIENTS
