"""The real worker program with faults that texts and names ask for; with none it is just that.

A text with POISON makes the forward pass raise, one with FLOOD never fits into memory; every so
many batches the device is out of memory once; a model whose folder is called FLAKY fails its
first loads. At SIGUSR1 it writes what torch holds on the device. The product knows nothing of it:
the program is given another loader.
"""

import argparse
import functools
import itertools
import signal
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch

from sie_mcp.adapters.adapter import Outputs, PackedBatch
from sie_mcp.adapters.cpu_backend import CpuBackend
from sie_mcp.config import load_config
from sie_mcp.engine import main as program
from sie_mcp.engine.loader import CheckpointLoader, OnDevice, Plan
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import make_tokenizer

# Words of the checkpoints' vocabulary that other texts do not have.
POISON, FLOOD = "w170", "w171"
FLAKY = "flaky"
NUM_FAILED_LOADS = 2


class FaultyLoader:
    """Loads what the real loader does, faults included.

    Args:
        oom_every: Every so many batches of several sequences do not fit, once; 0: all do.
        has_faults: False: to look for what a text asks for makes every batch wait for the device.
    """

    def __init__(
        self,
        registry: Registry,
        device: torch.device,
        dtype: torch.dtype,
        allow_remote_code: Collection[str] = (),
        paths: Collection[str] = (),
        backend: CpuBackend = "torch",
        *,
        oom_every: int = 0,
        has_faults: bool = True,
    ) -> None:
        self._inner = CheckpointLoader(registry, device, dtype, allow_remote_code, paths, backend)
        self._oom_every = oom_every
        self._has_faults = has_faults
        self._num_loads: Counter[str] = Counter()

    def plan(self, name: str) -> Plan:
        """Find the files."""
        return self._inner.plan(name)

    def load(self, plan: Plan) -> OnDevice:
        """Load, unless it is one of a flaky model's first loads."""
        if not self._has_faults:
            return self._inner.load(plan)
        self._num_loads[plan.name] += 1
        if plan.name.endswith(FLAKY) and self._num_loads[plan.name] <= NUM_FAILED_LOADS:
            raise ModelLoadFailed(f"{FLAKY} fails its first {NUM_FAILED_LOADS} loads")
        adapter: Any = self._inner.load(plan)
        adapter.forward = faulty(adapter.forward, self._oom_every)
        return adapter


def faulty(
    forward: Callable[[PackedBatch], Outputs], oom_every: int
) -> Callable[[PackedBatch], Outputs]:
    """Wrap a forward pass."""
    tokenizer = make_tokenizer("bert")
    poison, flood = tokenizer.token_to_id(POISON), tokenizer.token_to_id(FLOOD)
    numbers = itertools.count(1)

    def run(batch: PackedBatch) -> Outputs:
        # A sequence alone has no smaller batch to go to: it would rightly fail.
        if oom_every and batch.num_seqs > 1 and next(numbers) % oom_every == 0:
            raise torch.OutOfMemoryError("CUDA out of memory (injected, once)")
        if (batch.input_ids == flood).any():
            raise torch.OutOfMemoryError("CUDA out of memory (injected, for this text)")
        if (batch.input_ids == poison).any():
            raise ValueError("a poisoned sequence")
        return forward(batch)

    return run


def _write_allocated(path: Path, *_: object) -> None:
    """Write the bytes of live tensors; a reader never sees half of it."""
    bytes_ = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
    part = path.with_suffix(".part")
    part.write_text(str(bytes_))
    part.replace(path)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--uds")
    parser.add_argument("--port", type=int)
    parser.add_argument("--oom-every", type=int, default=0)
    parser.add_argument("--allocated", type=Path, help="where SIGUSR1 writes to")
    parser.add_argument("--no-faults", action="store_true", help="whatever texts ask for")
    given = parser.parse_args()
    if given.allocated:
        signal.signal(signal.SIGUSR1, functools.partial(_write_allocated, given.allocated))
    program.CheckpointLoader = functools.partial(
        FaultyLoader, oom_every=given.oom_every, has_faults=not given.no_faults
    )
    program.run_worker(load_config(), uds=given.uds, port=given.port)


if __name__ == "__main__":
    main()
