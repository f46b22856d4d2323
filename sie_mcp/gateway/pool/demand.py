"""How much of each key runs, smoothed, and how many copies that asks for.

Only what runs on a worker that has the model counts. What waits for a load says how slow loading
is, not how many copies are needed: counted too, a slow load would ask for many, which would push
others out, whose loads would ask for more.
Bookkeeping only: time comes in as an argument.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass

from sie_mcp.gateway.pool.keys import Key

# Requests of the last seconds count.
MEMORY_S = 5.0
# A copy more when the present ones are this full: before they are the reason for waiting.
TARGET_FILL = 0.7
# A copy less when so few were enough for so long: coming and going costs a load each time.
SHRINK_AFTER_S = 60.0
# Names come from callers: what was asked for longest ago is forgotten beyond this many.
MAX_KEYS = 4_096


@dataclass(slots=True)
class _Wanted:
    """One key's running requests, and what that was over the last seconds."""

    present: int = 0
    smooth: float = 0.0
    at_s: float = 0.0
    copies: int = 1
    fewer_since_s: float | None = None


class Demand:
    """Requests of a pool by key, as one of several gateways sees them.

    Args:
        gateways: How many there are; each sees about its share.
    """

    def __init__(self, gateways: int = 1) -> None:
        self.gateways = gateways
        self._keys: OrderedDict[Key, _Wanted] = OrderedDict()

    def begin(self, key: Key, now_s: float) -> None:
        """Count a request that a worker with the model was given."""
        self._at(key, now_s).present += 1

    def end(self, key: Key, now_s: float) -> None:
        """Count it no more."""
        self._at(key, now_s).present -= 1

    def show(self, key: Key, count: int, now_s: float) -> None:
        """Set the count, where it is known as a whole."""
        self._at(key, now_s).present = count

    def total(self) -> int:
        """Return the requests that run now, of this gateway."""
        return sum(one.present for one in self._keys.values())

    def keys(self) -> list[Key]:
        """Return what was asked for of late."""
        return list(self._keys)

    def copies(self, key: Key, slots: int, most: int, now_s: float) -> int:
        """Return on how many workers a key should be.

        Args:
            key: Which.
            slots: Requests that one worker runs well side by side.
            most: Workers there are.
            now_s: The time.
        """
        wanted = self._at(key, now_s)
        need = math.ceil(wanted.smooth * self.gateways / (slots * TARGET_FILL))
        need = max(min(need, most), 1)
        if need >= wanted.copies:
            wanted.copies, wanted.fewer_since_s = need, None
        elif wanted.fewer_since_s is None:
            wanted.fewer_since_s = now_s
        elif now_s - wanted.fewer_since_s >= SHRINK_AFTER_S:
            wanted.copies, wanted.fewer_since_s = need, None
        return min(wanted.copies, most)

    def _at(self, key: Key, now_s: float) -> _Wanted:
        """Return a key's account, brought up to now."""
        wanted = self._keys.get(key)
        if wanted is None:
            wanted = self._keys[key] = _Wanted(at_s=now_s)
            self._forget()
        self._keys.move_to_end(key)
        kept = math.exp((wanted.at_s - now_s) / MEMORY_S)
        wanted.smooth = wanted.smooth * kept + wanted.present * (1 - kept)
        wanted.at_s = now_s
        return wanted

    def _forget(self) -> None:
        if len(self._keys) <= MAX_KEYS:
            return
        oldest = next((key for key, one in self._keys.items() if not one.present), None)
        if oldest is not None:
            del self._keys[oldest]
