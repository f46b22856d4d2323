"""An encoder's pass over few tokens, recorded once and replayed: launching is what it costs.

CUDA graphs of a few sizes, made when a size was asked for often enough. Rows behind a batch's own
tokens are computed too and mean nothing. A graph reads weights where they lay when it was made, so
all go when the weights leave. For one thread at a time; knows no task.
"""

import logging
import threading
from collections import Counter
from functools import cache

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch, Sequence
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.recorded import Recorded

logger = logging.getLogger(__name__)

SIZES = (16, 32, 64, 128, 256, 512)
# Recording takes as long as some ten passes.
USES_BEFORE = 2
# What the graphs of all models may take on a device; engines keep as much free.
LIMIT_BYTES = 256 * 1024**2
# As in the self-check of a model: half precision sums in another order when the batch changes.
_TOLERANCE = 5e-2


class GraphMemory:
    """What graphs take on one device. Bookkeeping only."""

    def __init__(self) -> None:
        self.used_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no other graph may be made."""
        return self.used_bytes >= LIMIT_BYTES


class ForwardGraphs:
    """The graphs of one encoder.

    Args:
        encoder: Reads nothing of a batch on the host.
        weights: All that it computes with.
        max_length: No text has more tokens.
    """

    def __init__(self, encoder: nn.Module, weights: FlatWeights, max_length: int) -> None:
        self._encoder = encoder
        self._sizes = [size for size in SIZES if size <= max_length]
        self._graphs: dict[int, Recorded] = {}
        self._uses: Counter[int] = Counter()
        self._failed = False
        self._memory: GraphMemory | None = None
        weights.when_leaving(self.drop)

    @property
    def size_bytes(self) -> int:
        """What they take now."""
        return sum(one.size_bytes for one in self._graphs.values())

    def states(self, batch: PackedBatch) -> torch.Tensor | None:
        """Return hidden states `(num_tokens, hidden_size)`, good until the next call; None: run it.

        The first batches of a size are None, and whatever is more than tokens in their order.
        """
        size = self._size(batch)
        if size is None:
            return None
        if size not in self._graphs:
            self._uses[size] += 1
            if self._uses[size] <= USES_BEFORE or not self._record(size, batch):
                return None
        return self._graphs[size].replay(batch)

    def drop(self) -> None:
        """Forget all; what they took is free again."""
        if self._memory is not None:
            self._memory.used_bytes -= self.size_bytes
        self._graphs.clear()
        self._uses.clear()

    def _size(self, batch: PackedBatch) -> int | None:
        is_plain = batch.allows_kernels and batch.input_ids.is_cuda and batch.images is None
        if self._failed or not is_plain or batch.loras or batch.attended or batch.prefix_of:
            return None
        fitting = (size for size in self._sizes if batch.num_tokens <= size)
        size = next(fitting, None)
        return None if size is None or batch.num_seqs > Recorded.max_seqs(size) else size

    def _record(self, size: int, batch: PackedBatch) -> bool:
        device = batch.input_ids.device
        memory = self._memory = _memory(torch.cuda.current_device())
        if memory.is_full:
            return False
        pool = _pool(torch.cuda.current_device(), threading.get_ident())
        try:
            graph = Recorded(self._encoder, size, batch, pool)
            difference = max(self._difference(graph, one) for one in (batch, _other(batch, device)))
        except torch.OutOfMemoryError:
            return False
        except (RuntimeError, ValueError, AssertionError) as error:
            self._give_up(str(error))
            return False
        # So put, what is no number does not pass.
        if not difference <= _TOLERANCE:
            self._give_up(f"its numbers differ by {difference:.2g}")
            return False
        self._graphs[size] = graph
        memory.used_bytes += graph.size_bytes
        logger.debug("recorded tokens=%d bytes=%d", size, graph.size_bytes)
        return True

    def _difference(self, graph: Recorded, batch: PackedBatch) -> float:
        """Return how far a replay is from the pass itself, as a share of the largest number."""
        expected = self._encoder(batch).float()
        found = graph.replay(batch).float()
        return float((found - expected).abs().max() / expected.abs().max().clamp(min=1.0))

    def _give_up(self, reason: str) -> None:
        self._failed = True
        self.drop()
        logger.warning("forward passes are not recorded error=%.200s", reason)


def _other(batch: PackedBatch, device: torch.device) -> PackedBatch:
    """Return a batch of other tokens and lengths: what a graph has kept of the first would show."""
    ids = batch.input_ids.flip(0).cpu().numpy()
    cut = max(len(ids) // 3, 1)
    return pack([Sequence(part) for part in (ids[:cut], ids[cut:]) if len(part)], device)


@cache
def _memory(index: int) -> GraphMemory:
    return GraphMemory()


@cache
def _pool(index: int, thread: int) -> tuple[int, int]:
    """Return the memory that a thread's graphs share: no two of them run at once."""
    pool: tuple[int, int] = torch.cuda.graph_pool_handle()
    return pool
