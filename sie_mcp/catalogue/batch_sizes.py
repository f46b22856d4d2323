"""What was measured of batches on this machine, kept in the cache folder for the next start.

A file of its own; knows no device and measures nothing.
"""

import logging
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

logger = logging.getLogger(__name__)

FILE = "batch_sizes.json"
# Those measured longest ago are forgotten beyond this many.
MAX_KEPT = 256
# A file of as many entries has a tenth of it.
MAX_BYTES = 1_000_000


class Measured(BaseModel):
    """One model on one device.

    Attributes:
        model: Its name, for who reads this.
        revision: What its numbers depend on.
        device: The card or processor, and how models run there.
        torch: The version.
        tokens: The smallest batch that has nearly the best speed.
        curve: Sizes of batches and tokens a second.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    revision: str
    device: str
    torch: str
    tokens: int = Field(ge=1)
    curve: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by."""
        return self.revision, self.device, self.torch


class _Content(BaseModel):
    """The file. Its first version held what one measurement said, of a machine that may be busy."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[2]
    measured: list[Measured]


def read(cache_dir: Path) -> list[Measured]:
    """Return all that is kept, the latest last. A file that cannot be read is as good as none."""
    path = cache_dir / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"over {MAX_BYTES:,} bytes")
        return _Content.model_validate_json(path.read_bytes()).measured
    except FileNotFoundError:
        return []
    except (OSError, ValidationError, ValueError) as error:
        logger.warning("not used path=%s reason=%.200s", path, error)
        return []


def keep(cache_dir: Path, measured: Measured) -> None:
    """Add one to the file, in place of what it says of the same; in one step.

    Of two processes that add at the same moment one may be forgotten, and is measured again.

    Raises:
        OSError: the folder cannot be written to.
    """
    others = [one for one in read(cache_dir) if one.key != measured.key]
    content = _Content(version=2, measured=[*others, measured][-MAX_KEPT:])
    cache_dir.mkdir(parents=True, exist_ok=True)
    # A draft of one's own: two processes that write one would keep a mixture of both.
    draft = cache_dir / f".{FILE}.{os.getpid()}.draft"
    try:
        draft.write_text(content.model_dump_json(indent=1), "utf-8")
        draft.replace(cache_dir / FILE)
    finally:
        draft.unlink(missing_ok=True)
