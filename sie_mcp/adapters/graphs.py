"""An encoder's pass over few tokens, recorded once and replayed: launching is what it costs.

CUDA graphs of a few sizes, made when a size was asked for often enough. Rows behind a batch's own
tokens are computed too and mean nothing. A graph reads weights where they lay when it was made, so
all go when the weights leave. For one thread at a time; knows no task.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.adapter import Laid, PackedBatch, Sequence
from sie_mcp.adapters.agreement import EIGHT, HALF, disagreement
from sie_mcp.adapters.fast_paths import report_off
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.layers.float8_linear import has_eights
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.recorded import Pool, Recorded, Slots, make_slots
from sie_mcp.adapters.tiles import SIZES

logger = logging.getLogger(__name__)

# Recording takes as long as some ten passes.
USES_BEFORE = 2
# What the graphs of all models may take on a device; engines keep as much free.
LIMIT_BYTES = 512 * 1024**2
# Below so many tokens times the square of the width the host needs longer to launch a layer than
# the device to run it, on a busy host at least: 65,536 tokens of 384, 16,384 of 768.
LAUNCH_BOUND = 65_536 * 384**2
FEW_TOKENS = 512


def most_tokens(config: Mapping[str, Any]) -> int:
    """Return up to how many tokens a pass is worth being recorded.

    More than a few need our own attention: others start a program for each place of each sequence.
    """
    width, num_heads = config["hidden_size"], config["num_attention_heads"]
    if width // num_heads not in (16, 32, 64, 128):
        return FEW_TOKENS
    worth = max(LAUNCH_BOUND // width**2, FEW_TOKENS)
    return max(size for size in SIZES if size <= worth)


def graphs_for(recipe: Recipe, encoder: nn.Module, weights: FlatWeights) -> "ForwardGraphs":
    """Return the graphs of a recipe's encoder, none of them made yet."""
    return ForwardGraphs(recipe.name, encoder, weights, most_tokens(recipe.config))


class ForwardGraphs:
    """The graphs of one encoder.

    Args:
        name: The model's.
        encoder: Reads nothing of a batch on the host.
        weights: All that it computes with.
        max_tokens: Larger batches are not recorded.
    """

    def __init__(
        self, name: str, encoder: nn.Module, weights: FlatWeights, max_tokens: int
    ) -> None:
        self._name = name
        self._encoder = encoder
        self._weight = next(encoder.parameters())
        self._tolerance = EIGHT if has_eights(encoder) else HALF
        self._max_tokens = max_tokens
        self._slots: Slots | None = None
        self._graphs: dict[tuple[int, int], Recorded] = {}
        self._uses: Counter[tuple[int, int]] = Counter()
        self._failed = False
        self._taken_bytes = 0
        self._device_index = 0
        weights.when_leaving(self.drop)

    @property
    def size_bytes(self) -> int:
        """What they take now."""
        return self._taken_bytes

    def states(self, batch: PackedBatch) -> torch.Tensor | None:
        """Return hidden states `(num_tokens, hidden_size)`, good until the next call; None: run it.

        The first batches of a size are None, and whatever is more than tokens in their order.
        """
        laid = batch.laid
        if laid is None or laid.size is None or laid.size > self._max_tokens or self._failed:
            return None
        if not batch.allows_kernels or batch.images or batch.loras or batch.attended:
            return None
        if batch.prefix_of or not self._attends(laid.size, batch):
            return None
        key = (laid.size, laid.tile_rows)
        if key not in self._graphs:
            self._uses[key] += 1
            if self._uses[key] <= USES_BEFORE or not self._record(laid.size, batch, laid):
                return None
        return self._replay(batch, laid, self._graphs[key])

    def drop(self) -> None:
        """Forget all; what they took is free again."""
        _memory(self._device_index).used_bytes -= self._taken_bytes
        self._taken_bytes = 0
        self._slots = None
        self._graphs.clear()
        self._uses.clear()

    def _attends(self, size: int, batch: PackedBatch) -> bool:
        """Whether more than a few tokens would have our own attention."""
        return size <= FEW_TOKENS or usable("attend", self._weight, batch) is not None

    def _replay(self, batch: PackedBatch, laid: Laid, graph: Recorded) -> torch.Tensor:
        assert self._slots is not None
        self._slots.fill(batch, laid)
        graph.replay()
        return self._slots.states[: batch.num_tokens]

    def _record(self, size: int, batch: PackedBatch, laid: Laid) -> bool:
        index = self._device_index = torch.cuda.current_device()
        if _memory(index).is_full:
            return False
        try:
            graph = self._recorded(size, batch, laid, _pool(index, threading.get_ident()))
            alike = [batch, *(one for one in _others(batch) if _key(one) == _key(batch))]
            reasons = [reason for one in alike if (reason := self._disagreement(graph, one))]
        except torch.OutOfMemoryError:
            return False
        except (RuntimeError, ValueError, AssertionError) as error:
            self._give_up(f"{type(error).__name__}: {error}")
            return False
        if reasons:
            self._give_up(reasons[0])
            return False
        self._graphs[(size, laid.tile_rows)] = graph
        return True

    def _recorded(self, size: int, batch: PackedBatch, laid: Laid, pool: Pool) -> Recorded:
        taken = 0
        if self._slots is None:
            self._slots = make_slots(self._encoder(batch), self._max_tokens)
            taken = self._slots.size_bytes
        self._slots.fill(batch, laid)
        graph = Recorded(self._encoder, self._slots, size, batch, pool)
        taken += graph.size_bytes
        self._taken_bytes += taken
        _memory(self._device_index).used_bytes += taken
        logger.debug("recorded tokens=%d bytes=%d", size, taken)
        return graph

    def _disagreement(self, graph: Recorded, batch: PackedBatch) -> str:
        """Return how a replay differs from the pass itself; "": not at all."""
        assert batch.laid is not None
        expected = self._encoder(batch).float()
        found = self._replay(batch, batch.laid, graph).float()
        return disagreement(found, expected, self._tolerance)

    def _give_up(self, reason: str) -> None:
        self._failed = True
        self.drop()
        report_off("graphs", self._name, reason)


def _key(batch: PackedBatch) -> tuple[int | None, int] | None:
    return None if batch.laid is None else (batch.laid.size, batch.laid.tile_rows)


def _others(batch: PackedBatch) -> Iterator[PackedBatch]:
    """Yield batches of other tokens and lengths: what a graph has kept of the first would show.

    None is longer than the longest that was asked for: a model has no position behind its last.
    """
    ids = batch.input_ids.flip(0).cpu().numpy()
    longest, num_tokens = max(batch.lengths), len(ids)
    halves = [part for one in batch.lengths for part in (one // 2, one - one // 2) if part]
    for lengths in (
        batch.lengths[::-1],
        [min(longest, num_tokens - start) for start in range(0, num_tokens, longest)],
        halves,
    ):
        ends = (0, *accumulate(lengths))
        parts = [Sequence(ids[start:end]) for start, end in pairwise(ends)]
        other = pack(parts, batch.input_ids.device, is_laid_out=True)
        yield replace(other, paths=batch.paths)


class GraphMemory:
    """What graphs take on one device. Bookkeeping only."""

    def __init__(self) -> None:
        self.used_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no other graph may be made."""
        return self.used_bytes >= LIMIT_BYTES


@cache
def _memory(index: int) -> GraphMemory:
    return GraphMemory()


@cache
def _pool(index: int, thread: int) -> Pool:
    """Return the memory that a thread's graphs share: no two of them run at once."""
    pool: Pool = torch.cuda.graph_pool_handle()
    return pool
