"""A thread that ends the process when nothing else can: a worker that hangs is no worker.

Watches two heartbeats, the device thread's and the event loop's. What has stopped is given up at
once, so that probes and callers hear of it; the process ends within a bounded time, and whoever
supervises it starts a new one.
"""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

logger = logging.getLogger(__name__)

# EX_SOFTWARE of sysexits.h: a supervisor can tell a lost device from a wrong setting.
EXIT_FAILED = 70
# Long enough to answer whom it concerns, too short for a load in progress.
FAILURE_GRACE_S = 5.0
# Nothing on the loop may block; a machine that swaps, or a tokenizer that holds the interpreter's
# lock, still may for seconds.
MAX_LOOP_SILENCE_S = 60.0
LOOK_EVERY_S = 1.0
# Looks that lie this far apart mean that the whole process was stopped, by a debugger or a lid.
PAUSE_S = 10.0


class Watched(Protocol):
    """A device thread, as far as this module knows it."""

    beat_s: float

    @property
    def failure(self) -> str | None:
        """Why it has given itself up; None while all is well."""

    def fail(self, reason: str) -> None:
        """Give the device up."""


def end_process(status: int) -> None:
    """End at once, with every thread's stack in the log: they say what hung."""
    faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)
    logging.shutdown()
    os._exit(status)


class Watchdog:
    """Start it on the event loop that it is to watch.

    Args:
        devices: Whose hearts beat before each forward pass.
        max_forward_s: A forward pass that takes longer is stuck.
        max_loop_silence_s: An event loop that does not move for longer is stuck.
        end: Ends the process with a status.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        devices: Sequence[Watched],
        *,
        max_forward_s: float,
        max_loop_silence_s: float = MAX_LOOP_SILENCE_S,
        end: Callable[[int], None] = end_process,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices = tuple(devices)
        self._max_forward_s = max_forward_s
        self._max_loop_silence_s = max_loop_silence_s
        self._end = end
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_beat_s = self._looked_s = self._awake_since_s = clock()
        self._end_by: tuple[float, int] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._loop = asyncio.get_running_loop()
        self._loop_beat_s = self._looked_s = self._awake_since_s = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        self._thread.join()

    def end_within(self, seconds: float, status: int) -> None:
        """End the process after this time if it has not ended by itself; the earliest counts."""
        wanted = (self._clock() + seconds, status)
        if self._end_by is None or wanted[0] < self._end_by[0]:
            self._end_by = wanted

    def look(self) -> None:
        """Look once at everything."""
        now_s = self._clock()
        if now_s - self._looked_s > PAUSE_S:
            self._awake_since_s = now_s
        self._looked_s = now_s
        for device in self._devices:
            if device.failure is None and (reason := self._stuck(device, now_s)):
                device.fail(reason)
        if any(device.failure is not None for device in self._devices):
            self.end_within(FAILURE_GRACE_S, EXIT_FAILED)
        if self._end_by is not None and now_s >= self._end_by[0]:
            logger.error("ending the process status=%d", self._end_by[1])
            self._end(self._end_by[1])
        self._ask_loop()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self.look()

    def _stuck(self, device: Watched, now_s: float) -> str | None:
        """Return what has not moved for too long."""
        silence_s = now_s - max(device.beat_s, self._awake_since_s)
        if silence_s > self._max_forward_s:
            return f"a forward pass has run for {silence_s:.0f} s (max_forward_s)"
        silence_s = now_s - max(self._loop_beat_s, self._awake_since_s)
        if silence_s > self._max_loop_silence_s:
            return f"the event loop has stood still for {silence_s:.0f} s"
        return None

    def _ask_loop(self) -> None:
        if self._loop is None or self._loop.is_closed():
            self._hear_loop()  # It ended, as the process is about to; that is not stuck.
            return
        try:
            self._loop.call_soon_threadsafe(self._hear_loop)
        except RuntimeError:
            self._hear_loop()  # It closed this very moment.

    def _hear_loop(self) -> None:
        self._loop_beat_s = self._clock()
