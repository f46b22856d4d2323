"""Results that did not fit an answer, kept for a while so that an agent can read them in pages.

Knows entries and names only, neither tools nor MCP. Where they lie, in this process or where all
replicas can reach them, is the store's affair.
"""

import hashlib
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

import msgpack

from sie_mcp.errors import StoreUnavailable
from sie_mcp.tools.result import BYTES_PER_TOKEN
from sie_mcp.tools.stores import Store

logger = logging.getLogger(__name__)

PREFIX = "sie://results/"
# What stands around the entries of a page, in tokens.
_FRAME_TOKENS = 50


class ResultStore(Protocol):
    """Keeps the entries of results, each a JSON object, under names that cannot be guessed."""

    async def put(self, entries: Sequence[str], owner: str = "") -> str | None:
        """Keep entries; return their name, or None if they are more than is ever kept."""

    async def get(self, name: str, owner: str = "") -> Sequence[str] | None:
        """Return the owner's entries, or None if they are not here, or not any more."""


class KeptResults:
    """Results in a store: the oldest go first when there are too many or too large.

    Both bounds are for what this process has put; replicas that share a store have as much each.

    Args:
        store: Where they lie.
        ttl_s: How long a result stays, at most.
        max_results: How many are kept; 0 keeps none.
        max_bytes: What all of them may hold together.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self,
        store: Store,
        *,
        ttl_s: float,
        max_results: int,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._ttl_s = ttl_s
        self._max_results = max_results
        self._max_bytes = max_bytes
        self._clock = clock
        # When each result ends and how large it is, by its key.
        self._kept: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._num_bytes = 0
        # Equal results have one name, so that a repeated call has the same answer; a secret in it
        # keeps a name from being computed by somebody else.
        self._secret = secrets.token_bytes(32)

    async def put(self, entries: Sequence[str], owner: str = "") -> str | None:
        """Keep entries, from now on for the whole time."""
        data = [entry.encode() for entry in entries]
        num_bytes = sum(map(len, data))
        if num_bytes > self._max_bytes or not self._max_results:
            return None
        digest = hashlib.blake2b(owner.encode(), key=self._secret, digest_size=16)
        for one in data:
            digest.update(len(one).to_bytes(8, "big") + one)
        name = digest.hexdigest()
        try:
            await self._make_room(_key(name, owner), num_bytes)
            await self._store.put(_key(name, owner), msgpack.packb(data), self._ttl_s)
        except StoreUnavailable as error:
            logger.warning("a result is not kept: %s", error)
            return None
        return name

    async def get(self, name: str, owner: str = "") -> Sequence[str] | None:
        """Return the entries, if they are still here.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        value = await self._store.get(_key(name, owner))
        return None if value is None else tuple(one.decode() for one in msgpack.unpackb(value))

    async def _make_room(self, key: str, num_bytes: int) -> None:
        """Account for a result before it is put, and drop the oldest that are now too many."""
        self._forget(key)
        now_s = self._clock()
        # All stay equally long, so the oldest expires first.
        while self._kept and next(iter(self._kept.values()))[0] <= now_s:
            self._forget(next(iter(self._kept)))
        self._kept[key] = (now_s + self._ttl_s, num_bytes)
        self._num_bytes += num_bytes
        while len(self._kept) > self._max_results or self._num_bytes > self._max_bytes:
            oldest = next(iter(self._kept))
            self._forget(oldest)
            await self._store.delete(oldest)

    def _forget(self, key: str) -> None:
        _, num_bytes = self._kept.pop(key, (0.0, 0))
        self._num_bytes -= num_bytes


def _key(name: str, owner: str) -> str:
    """Return where a result lies: nobody but its owner knows the place."""
    place = hashlib.blake2b(f"{owner}\0{name}".encode(errors="replace"), digest_size=16)
    return f"result:{place.hexdigest()}"


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
