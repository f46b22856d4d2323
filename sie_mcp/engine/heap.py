"""Freed host memory that the C library keeps for itself: at hand between batches, then given back.

Activations of every shape leave the heap of a CPU worker full of holes: what a burst has taken
would stay taken for ever. So would code that a start has run. Knows the C library alone.
"""

import ctypes
import sys
import time
from collections.abc import Callable

from sie_mcp.engine.code_pages import CodePages

# glibc's numbers for its settings, and what they become: it takes up to 32 MiB as the first.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_FROM_HEAP_BYTES, _KEPT_BYTES = 32 * 1024**2, 512 * 1024**2
THREADS_PER_ARENA = 2
# Giving back takes up to tens of milliseconds: and what is given back is taken again page by page.
EVERY_S = 3.0


class Heap:
    """Gives back what is free, after work and seldom enough.

    Args:
        trim: Does so; by default glibc's, and nothing where the C library is another one, and then
            what `CodePages` does.
        clock: Seconds, monotonic.
        has_code: Code is given back as well; not where a device waits for what runs it.
    """

    def __init__(
        self,
        trim: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        has_code: bool = True,
    ) -> None:
        self._trim = trim or (_trims() if has_code else _glibc_trim())
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


def keep_freed(num_threads: int) -> None:
    """Have activations lie where earlier ones did, not in pages that the system clears each time.

    Else a batch of 4,096 tokens faults up to 30,000 times, a tenth of its time. `Heap` gives back.
    Two threads share an arena: with one each, a rested worker held 20 to 50 MB more
    (evals/LOG.md 24), with one for all those that tokenise wait for each other. Call it before
    there are other threads.

    Args:
        num_threads: Those that compute.
    """
    settle = _glibc("mallopt")
    if settle is not None:
        settle(_MMAP_THRESHOLD, _FROM_HEAP_BYTES)
        settle(_TRIM_THRESHOLD, _KEPT_BYTES)
        settle(_ARENA_MAX, max(num_threads // THREADS_PER_ARENA, 1))


def _trims() -> Callable[[], object]:
    trim, code = _glibc_trim(), CodePages()

    def both() -> None:
        trim()
        code.tidy()

    return both


def _glibc_trim() -> Callable[[], object]:
    trim = _glibc("malloc_trim")
    return (lambda: None) if trim is None else lambda: trim(0)


def _glibc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, where it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    has_both = hasattr(library, "malloc_trim") and hasattr(library, "mallopt")
    function: Callable[..., int] | None = getattr(library, name) if has_both else None
    return function
