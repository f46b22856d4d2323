"""One recorded forward pass: fixed places for what comes in and goes out. Knows no model."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.tiles import TILE_ROWS, make_tiles


class Recorded:
    """A graph of one size; texts that are shorter together leave its last rows over.

    Args:
        encoder: Makes states of a batch.
        size: Tokens.
        batch: What it is made with; any later one may differ.
        pool: The graphs' shared memory.
    """

    def __init__(
        self, encoder: nn.Module, size: int, batch: PackedBatch, pool: tuple[int, int]
    ) -> None:
        device = batch.input_ids.device
        num_seqs = self.max_seqs(size)
        before = torch.cuda.memory_reserved(device)
        self._ids = torch.zeros((3, size), dtype=torch.int64, device=device)
        self._num_ends = num_seqs + 1
        self._num_numbers = self._num_ends + 2 * (size // TILE_ROWS + num_seqs)
        self._numbers = torch.zeros(self._num_numbers, dtype=torch.int32, device=device)
        static = self._batch(size)
        self._fill(batch)
        stream = _stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            encoder(static)  # Kernels compile and libraries make their workspaces outside.
        self._graph = torch.cuda.CUDAGraph()
        options: dict[str, Any] = {"pool": pool, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(self._graph, stream=stream, **options):
            self._states: torch.Tensor = encoder(static)
        torch.cuda.current_stream().wait_stream(stream)
        grown = torch.cuda.memory_reserved(device) - before
        self.size_bytes = max(grown, self._states.nbytes + self._ids.nbytes)

    @staticmethod
    def max_seqs(size: int) -> int:
        """Return how many texts a graph of a size takes."""
        return max(size // 8, 2)

    def replay(self, batch: PackedBatch) -> torch.Tensor:
        """Return states of the batch's tokens, good until the next replay."""
        self._fill(batch)
        self._graph.replay()
        return self._states[: batch.num_tokens]

    def _batch(self, size: int) -> PackedBatch:
        return PackedBatch(
            input_ids=self._ids[0],
            position_ids=self._ids[1],
            token_type_ids=self._ids[2],
            cu_seqlens=self._numbers[: self._num_ends],
            lengths=(),
            tiles=self._numbers[self._num_ends :].view(-1, 2),
            longest=size,
        )

    def _fill(self, batch: PackedBatch) -> None:
        """Put a batch in; ids behind it stay those of an earlier one, which are ids too."""
        count = batch.num_tokens
        self._ids[0, :count].copy_(batch.input_ids)
        self._ids[1, :count].copy_(batch.position_ids)
        self._ids[2, :count].copy_(batch.token_type_ids)
        numbers = torch.empty(self._num_numbers, dtype=torch.int32, pin_memory=True)
        host = numbers.numpy()
        # Sequences that are not there are empty ones, and tiles begin behind their end.
        host[: self._num_ends] = count
        host[: batch.num_seqs + 1] = batch.offsets
        tiles = make_tiles(batch.lengths)
        own = host[self._num_ends :].reshape(-1, 2)
        own[: len(tiles)] = tiles
        own[len(tiles) :] = np.array((0, count), dtype=np.int32)
        self._numbers.copy_(numbers, non_blocking=True)


@cache
def _stream(index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(index)  # type: ignore[no-untyped-call]
