"""One recorded forward pass, and the fixed places for what comes in and goes out of all of them."""

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.adapter import Laid, PackedBatch
from sie_mcp.adapters.image_patches import Embedded
from sie_mcp.adapters.tiles import TILE_WIDTH, max_seqs

Pool = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Slots:
    """Where every graph of a model reads and writes: no two of them run at once.

    Attributes:
        ids: Token ids, positions and types, int64 `(3, max_tokens)`.
        numbers: Where sequences and tiles lie, int32.
        states: What the encoder gives, `(max_tokens, hidden_size)`.
        embedded: What comes in instead of ids, as wide; none of it for encoders that read ids.
    """

    ids: torch.Tensor
    numbers: torch.Tensor
    states: torch.Tensor
    embedded: tuple[torch.Tensor, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What they take."""
        whole = (self.ids, self.numbers, self.states, *self.embedded)
        return sum(one.nbytes for one in whole)

    def fill(self, batch: PackedBatch, laid: Laid) -> None:
        """Put a batch in; ids behind it stay those of an earlier one, which are ids too."""
        self.numbers[: len(laid.numbers)].copy_(laid.numbers)
        if not self.embedded:
            self.ids[:, : batch.num_tokens].copy_(laid.ids)
        for place, own in zip(self.embedded, _parts(batch.embedded), strict=True):
            place[: batch.num_tokens].copy_(own)

    def batch(self, size: int, laid: Laid, paths: frozenset[str]) -> PackedBatch:
        """Return a batch of a size that reads these places and takes these ways."""
        ends = max_seqs(size) + 1
        numbers = self.numbers[: len(laid.numbers)]
        return PackedBatch(
            input_ids=self.ids[0, :size],
            position_ids=self.ids[1, :size],
            token_type_ids=self.ids[2, :size],
            cu_seqlens=numbers[:ends],
            lengths=(),
            tiles=numbers[ends:].view(-1, TILE_WIDTH),
            tile_rows=laid.tile_rows,
            longest=size,
            paths=paths,
            embedded=self._embedded(size),
        )

    def _embedded(self, size: int) -> Embedded | None:
        if not self.embedded:
            return None
        states, *added = (one[:size] for one in self.embedded)
        return Embedded(states, added[0] if added else None)


def _parts(embedded: Embedded | None) -> list[torch.Tensor]:
    if embedded is None:
        return []
    return [one for one in (embedded.states, embedded.added) if one is not None]


def make_slots(states: torch.Tensor, embedded: Embedded | None, max_tokens: int) -> Slots:
    """Make room for passes of at most so many tokens, which give states like these."""
    device, width = states.device, states.shape[1]
    most_tiles = max_tokens // 16 + max_seqs(max_tokens)
    most_numbers = 1 + max_seqs(max_tokens) + TILE_WIDTH * most_tiles
    return Slots(
        ids=torch.zeros((3, max_tokens), dtype=torch.int64, device=device),
        numbers=torch.zeros(most_numbers, dtype=torch.int32, device=device),
        states=torch.zeros((max_tokens, width), dtype=states.dtype, device=device),
        embedded=tuple(one.new_zeros((max_tokens, one.shape[1])) for one in _parts(embedded)),
    )


class Recorded:
    """A graph of one size, in places that hold a batch of that size already.

    Args:
        encoder: What runs.
        slots: The places.
        size: Tokens.
        batch: That which the places hold, laid out.
        pool: What the graph computes in.
    """

    def __init__(
        self, encoder: nn.Module, slots: Slots, size: int, batch: PackedBatch, pool: Pool
    ) -> None:
        laid, paths = batch.laid, batch.paths
        assert laid is not None
        device = slots.ids.device
        before = torch.cuda.memory_reserved(device)
        stream = _stream(torch.cuda.current_device(), threading.get_ident())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # Kernels compile and libraries make their workspaces outside.
            encoder(slots.batch(size, laid, paths))
        self._graph = torch.cuda.CUDAGraph()
        options: dict[str, Any] = {"pool": pool, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(self._graph, stream=stream, **options):
            # A batch of its own: what another has worked out and kept would stay as it is.
            slots.states[:size].copy_(encoder(slots.batch(size, laid, paths)))
        torch.cuda.current_stream().wait_stream(stream)
        self.size_bytes = torch.cuda.memory_reserved(device) - before

    def replay(self) -> None:
        """Run it on what the places hold."""
        self._graph.replay()


@cache
def _stream(index: int, thread: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(index)  # type: ignore[no-untyped-call]
