"""The real worker program with toy models: `python -m tests.toy_worker --uds PATH | --port N`."""

import argparse
import logging
import threading
import time
from pathlib import Path

import torch

from sie_mcp.catalogue.entries import Catalogue, Entry, Source
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.doors import num_doors
from sie_mcp.engine.main import build_worker
from sie_mcp.engine.serving import Worker, serve
from sie_mcp.tracing import start_tracing
from tests.toys import ToyLoader, ToyRegistry

CATALOGUE = Catalogue(
    models=(
        Entry(
            name="toy",
            tasks=("dense",),
            description="A toy.",
            sources=(Source(kind="path", path="/nowhere"),),
        ),
    ),
    defaults={"encode": ("toy",), "score": ("toy",), "extract": ("toy",)},
)


class HeldGate(threading.Event):
    """A gate of a program, which a test holds shut by a file; then slow."""

    def __init__(self, file: Path, seconds: float) -> None:
        super().__init__()
        self._file = file
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        """Hold the caller for as long as the file is there, and for a fixed time."""
        while self._file.exists():
            time.sleep(0.01)
        time.sleep(self._seconds)
        return True


class SlowGate(threading.Event):
    """A gate that opens a fixed time after it is first waited at."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        """Hold the caller for the fixed time."""
        time.sleep(self._seconds)
        return True


def make_worker(config: Config, loader: ToyLoader, *, has_doors: bool = False) -> Worker:
    """Join the real parts around a toy loader."""
    registry = ToyRegistry(CATALOGUE, config.cache_dir, FetchOptions(offline=True))
    device = torch.device("cpu")
    return build_worker(config, [device], registry, lambda _: loader, has_doors=has_doors)


def main() -> None:
    """Parse arguments and serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--uds")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--forward-s", type=float, default=0.0)
    parser.add_argument("--load-held-by", type=Path, help="loads wait while this file is there")
    parser.add_argument("--held-by", type=Path, help="batches wait while this file is there")
    given = parser.parse_args()
    loader = ToyLoader()
    if given.load_held_by:
        loader.gate = HeldGate(given.load_held_by, 0.0)
    if given.held_by:
        loader.forward_gate = HeldGate(given.held_by, given.forward_s)
    elif given.forward_s:
        loader.forward_gate = SlowGate(given.forward_s)
    logging.basicConfig(level=logging.WARNING)
    config = Config()
    start_tracing("sie-mcp-worker", config.tracing, is_wanted=config.wants_traces)
    doors = num_doors(config) if given.uds is None else 0
    worker = make_worker(config, loader, has_doors=doors > 0)
    serve(worker, config, uds=given.uds, port=given.port, num_doors=doors)


if __name__ == "__main__":
    main()
