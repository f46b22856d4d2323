"""Pages of host memory that a device reads at full speed. Knows no models.

Pinning costs seconds a gigabyte (854 ms for 670 MB on an H100's host), so a page is made when first
asked for, and kept.
"""

import threading
from collections.abc import Sequence

import torch

from sie_mcp.errors import OutOfMemory

# A quarter of a small model; copied in .6 ms, so that cutting costs nothing.
PAGE_BYTES = 32 * 1024 * 1024


class HostPages:
    """Pages by number. Thread-safe.

    Args:
        is_pinned: The device is one that reads pinned memory faster.
        page_bytes: Of each.
    """

    def __init__(self, *, is_pinned: bool, page_bytes: int = PAGE_BYTES) -> None:
        self.page_bytes = page_bytes
        self._is_pinned = is_pinned
        self._pages: dict[int, torch.Tensor] = {}
        self._lock = threading.Lock()

    def get(self, numbers: Sequence[int]) -> list[torch.Tensor]:
        """Return pages, uint8 `(page_bytes,)` each, made as needed.

        Raises:
            OutOfMemory: the host has no more, whatever the budget.
        """
        with self._lock:
            for number in numbers:
                if number not in self._pages:
                    self._pages[number] = self._make()
            return [self._pages[number] for number in numbers]

    def _make(self) -> torch.Tensor:
        try:
            return torch.empty(self.page_bytes, dtype=torch.uint8, pin_memory=self._is_pinned)
        except RuntimeError as error:
            raise OutOfMemory(f"no host memory for weights: {error!s:.80}") from error
