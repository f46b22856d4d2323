"""How to fetch: settings and callbacks handed to every source. Knows no source."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from sie_mcp.config import Config

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with file, bytes done and bytes in total (0: not known yet), from any thread."""

FORGET_OUTAGE_AFTER_S = 60.0  # A long-lived worker asks the hub again after this; a command never.


class Outage:
    """Remembers for a minute that the hub is away, so that one wait serves many models."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._until = 0.0

    def remember(self, reason: str) -> None:
        """Keep the reason; callers within the next minute get it instead of a try."""
        with self._lock:
            self._reason = reason
            self._until = time.monotonic() + FORGET_OUTAGE_AFTER_S

    def reason(self) -> str:
        """Return why the hub is not to be asked now, or an empty string."""
        with self._lock:
            return self._reason if time.monotonic() < self._until else ""


def _log_notice(text: str) -> None:
    logger.warning("%s", text)


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What the sources may do and whom they tell. One object serves many fetches.

    Attributes:
        offline: Ask no hub and no index.
        hub_endpoint: Another hub than huggingface_hub's own.
        index_url: Another package index than the one pip is set to.
        allow_remote_code: Models, by name or hub id, whose own code is fetched too.
        timeout_s: Longest wait for a connection or a chunk.
        progress: Told how far a download is.
        notice: Told in a sentence when a source failed and the next one is tried, or when waiting.
        hub_outage: Shared by fetches that should not each find out that the hub is away.
    """

    offline: bool = False
    hub_endpoint: str | None = None
    index_url: str | None = None
    allow_remote_code: tuple[str, ...] = ()
    timeout_s: float = 30.0
    progress: Progress | None = None
    notice: Callable[[str], None] = _log_notice
    hub_outage: Outage = field(default_factory=Outage)

    @classmethod
    def from_config(
        cls,
        config: Config,
        *,
        progress: Progress | None = None,
        notice: Callable[[str], None] = _log_notice,
    ) -> Self:
        """Take the settings that concern fetching."""
        return cls(
            offline=config.offline,
            hub_endpoint=config.hub_endpoint,
            index_url=config.index_url,
            allow_remote_code=config.allow_remote_code,
            timeout_s=config.download_timeout_s,
            progress=progress,
            notice=notice,
        )

    def report(self, file: str, done_bytes: int, total_bytes: int) -> None:
        """Tell the progress callback, if there is one."""
        if self.progress is not None:
            self.progress(file, done_bytes, total_bytes)
