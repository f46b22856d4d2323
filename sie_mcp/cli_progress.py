"""How a pull looks: bars on a terminal, plain lines in a pipe. Knows nothing of models.

All of it goes to stderr; stdout is for results.
"""

import threading
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class PullDisplay(Protocol):
    """What a command tells while it fetches; both methods may be called from any thread."""

    def progress(self, file: str, done_bytes: int, total_bytes: int) -> None:
        """Show how far a file is."""

    def notice(self, text: str) -> None:
        """Show a sentence."""


class BarDisplay:
    """One bar a file, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def progress(self, file: str, done_bytes: int, total_bytes: int) -> None:
        """Move the file's bar."""
        with self._lock:
            if file not in self._tasks:
                self._tasks[file] = self._bars.add_task(file, total=total_bytes or None)
            task = self._tasks[file]
        self._bars.update(task, completed=done_bytes, total=total_bytes or None)

    def notice(self, text: str) -> None:
        """Print above the bars."""
        self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


class LineDisplay:
    """A line when a file starts, at each quarter and at its end, in a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._quarters: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def progress(self, file: str, done_bytes: int, total_bytes: int) -> None:
        """Print a line when another quarter is done."""
        if total_bytes == 0:
            return
        quarter = 4 * done_bytes // total_bytes
        with self._lock:
            if quarter <= self._quarters.get(file, -1):
                return
            self._quarters[file] = quarter
        self.notice(f"{file}: {megabytes(done_bytes)} of {megabytes(total_bytes)}")

    def notice(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def display_on(console: Console) -> BarDisplay | LineDisplay:
    """Choose by whether someone watches."""
    return BarDisplay(console) if console.is_terminal else LineDisplay(console)


def megabytes(size: int) -> str:
    """Return a size as people read it."""
    return f"{size / 1e6:.1f} MB"
