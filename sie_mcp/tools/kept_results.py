"""Results that did not fit an answer, kept for a while so that an agent can read them in pages.

A store knows entries and names only, neither tools nor MCP. This one is the process's own: another
replica has its own too. A shared one has to offer the same two methods.
"""

import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sie_mcp.tools.result import BYTES_PER_TOKEN

PREFIX = "sie://results/"
# What stands around the entries of a page, in tokens.
_FRAME_TOKENS = 50


class ResultStore(Protocol):
    """Keeps the entries of results, each a JSON object, under names that cannot be guessed."""

    async def put(self, entries: Sequence[str]) -> str | None:
        """Keep entries; return their name, or None if they are more than is ever kept."""

    async def get(self, name: str) -> Sequence[str] | None:
        """Return the entries, or None if they are not here, or not any more."""


@dataclass(frozen=True, slots=True)
class _Kept:
    entries: tuple[str, ...]
    num_bytes: int
    until_s: float


class LocalResults:
    """A store in memory: the oldest results go first when there are too many or too large.

    Args:
        ttl_s: How long a result stays, at most.
        max_results: How many are kept; 0 keeps none.
        max_bytes: What all of them may hold together.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self,
        *,
        ttl_s: float,
        max_results: int,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl_s = ttl_s
        self._max_results = max_results
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._num_bytes = 0
        # Equal results have one name, so that a repeated call has the same answer; a secret in it
        # keeps a name from being computed by somebody else.
        self._secret = secrets.token_bytes(32)

    async def put(self, entries: Sequence[str]) -> str | None:
        """Keep entries, from now on for the whole time."""
        self._drop_expired()
        digest = hashlib.blake2b(key=self._secret, digest_size=16)
        num_bytes = 0
        for entry in entries:
            data = entry.encode()
            digest.update(len(data).to_bytes(8, "big") + data)
            num_bytes += len(data)
        if num_bytes > self._max_bytes or not self._max_results:
            return None
        name = digest.hexdigest()
        self._drop(name)
        self._kept[name] = _Kept(tuple(entries), num_bytes, self._clock() + self._ttl_s)
        self._num_bytes += num_bytes
        while len(self._kept) > self._max_results or self._num_bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))
        return name

    async def get(self, name: str) -> Sequence[str] | None:
        """Return the entries, if they are still here."""
        self._drop_expired()
        kept = self._kept.get(name)
        return kept.entries if kept else None

    def _drop_expired(self) -> None:
        now_s = self._clock()
        # All stay equally long, so the oldest expires first.
        while self._kept and next(iter(self._kept.values())).until_s <= now_s:
            self._drop(next(iter(self._kept)))

    def _drop(self, name: str) -> None:
        dropped = self._kept.pop(name, None)
        self._num_bytes -= dropped.num_bytes if dropped else 0


def page(name: str, entries: Sequence[str], offset: int, max_tokens: int) -> str:
    """Return as JSON the entries from `offset` on that fit, and where the next ones are.

    An entry that fits no page is cut, and comes as a text.
    """
    left = (max_tokens - _FRAME_TOKENS) * BYTES_PER_TOKEN
    shown: list[str] = []
    for entry in entries[offset:]:
        size = len(entry.encode()) + 1
        if size > left and not shown:
            # A quote or a backslash of JSON is written with one more.
            entry = json.dumps(entry.encode()[: left // 2].decode(errors="ignore") + "…")
            size = left
        if size > left:
            break
        shown.append(entry)
        left -= size
    after = offset + len(shown)
    following = f',"next":"{PREFIX}{name}?offset={after}"' if after < len(entries) else ""
    return f'{{"count":{len(entries)},"offset":{offset},"entries":[{",".join(shown)}]{following}}}'
