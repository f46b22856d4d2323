"""Turns huggingface_hub's progress bars into calls of our own. Draws nothing."""

import importlib
import io
from collections.abc import Callable
from typing import Any


def counting_bars(report: Callable[[int], None]) -> type:
    """Return a tqdm class for snapshot_download that reports how many bytes are done.

    The library runs one bar for what arrives and one for what is written; the further one counts.
    """
    tqdm_class: Any = importlib.import_module("tqdm.auto").tqdm  # Comes with huggingface_hub.
    furthest = 0

    class CountingBar(tqdm_class):  # type: ignore[misc]  # The class is known at run time only.
        monitor_interval = 0  # No thread that wakes stalled bars.

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts_bytes = kwargs.get("unit") == "B"
            super().__init__(*args, **{**kwargs, "file": io.StringIO(), "disable": False})

        def update(self, n: float | None = 1) -> None:
            nonlocal furthest
            super().update(n)
            if self._counts_bytes:
                furthest = max(furthest, int(self.n))
                report(furthest)

    return CountingBar
