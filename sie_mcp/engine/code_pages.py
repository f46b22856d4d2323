"""Pages of libraries' code that only a start and a load have run, given back to the system.

They count as a worker's memory, a hundred megabytes of it, and no batch runs them again. Linux
alone: whoever comes back to such a page has it mapped again from the system's cache of files
(evals/LOG.md 24). Knows no model.
"""

import ctypes
import mmap
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# More than this beside what batches run is worth the ten milliseconds of giving it back.
WORTH_BYTES = 32 * 1024**2
# Smaller mappings hold little.
_MIN_BYTES = 1024**2
_PROCESS = Path("/proc/self")
_START = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ +(/?)")


class CodePages:
    """Gives them back once there are many more than batches turned out to need.

    Args:
        give_back: Does so.
        resident_bytes: What of mapped files is in memory.
    """

    def __init__(
        self,
        give_back: Callable[[], object] | None = None,
        resident_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._give_back = give_back or give_back_code
        self._resident_bytes = resident_bytes or mapped_bytes
        # What there was when batches had run since; None before.
        self._needed_bytes: int | None = 0

    def tidy(self) -> None:
        """Give back, if that is worth it; call it after work."""
        resident = self._resident_bytes()
        if self._needed_bytes is None:
            self._needed_bytes = resident
        elif resident - self._needed_bytes > WORTH_BYTES:
            self._give_back()
            self._needed_bytes = None


def mapped_bytes() -> int:
    """Return what of mapped files is in this process's memory; 0 where the system does not say."""
    if not sys.platform.startswith("linux"):
        return 0
    return int((_PROCESS / "statm").read_text().split()[2]) * mmap.PAGESIZE


def give_back_code() -> int:
    """Give back the code of all large libraries; return how many there were.

    Threads that run in one find it again. Code that was written to, as debuggers do, stays: what
    was written is in no file.
    """
    if not sys.platform.startswith("linux"):
        return 0
    advise = ctypes.CDLL(None).madvise
    ranges = list(_clean_code((_PROCESS / "smaps").read_text().splitlines()))
    for start, end in ranges:
        # It refuses what is locked into memory, which then stays.
        advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
    return len(ranges)


def _clean_code(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield where mappings of a file's code start and end of which no page is another than its."""
    place: tuple[int, int] | None = None
    for line in lines:
        found = _START.match(line)
        if found is not None:
            start, end = int(found[1], 16), int(found[2], 16)
            is_code = found[3] == "r-xp" and found[4] == "/" and end - start >= _MIN_BYTES
            place = (start, end) if is_code else None
        elif place is not None and line.startswith("Anonymous:"):
            if line.split()[1] == "0":
                yield place
            place = None
