"""What a scenario may be told; None means its own default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a scenario.

    Attributes:
        work: An empty folder for checkpoints and logs.
        gpu: On the first CUDA device, with shapes of its size.
        tiny: As small as a test wants it.
        seconds: Of load, in each arm.
        clients: Callers side by side.
        requests: Where a scenario counts them instead of seconds.
        settings: Of the worker, over the scenario's own.
    """

    work: Path
    gpu: bool = False
    tiny: bool = False
    seconds: float | None = None
    clients: int | None = None
    requests: int | None = None
    seed: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        """What checkpoints are written in, which is what the worker runs them in."""
        return torch.bfloat16 if self.gpu else torch.float32

    def worker(self, **own: object) -> dict[str, object]:
        """Return the worker's settings."""
        device = {"device": "cuda" if self.gpu else "cpu", "log_level": "WARNING"}
        return {**device, **own, **self.settings}
