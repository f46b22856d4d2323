"""Freed host memory that the C library keeps for itself, given back now and then.

Activations of every shape leave the heap of a CPU worker full of holes: what a burst has taken
would stay taken for ever. Knows the C library alone.
"""

import ctypes
import sys
import time
from collections.abc import Callable

# Giving back takes up to tens of milliseconds: and what is given back is taken again page by page.
EVERY_S = 3.0


class Heap:
    """Gives back what is free, after work and seldom enough.

    Args:
        trim: Does so; by default glibc's, and nothing where the C library is another one.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        trim: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trim = trim or _glibc_trim()
        self._clock = clock
        self._trimmed_s = clock()
        self._is_used = False

    def tidy(self, *, was_used: bool) -> None:
        """Give back, if there was work since the last time and that is long enough ago."""
        self._is_used = self._is_used or was_used
        if not self._is_used or self._clock() - self._trimmed_s < EVERY_S:
            return
        self._trim()
        self._is_used = False
        self._trimmed_s = self._clock()


def _glibc_trim() -> Callable[[], object]:
    if not sys.platform.startswith("linux"):
        return lambda: None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if trim is None else lambda: trim(0)
