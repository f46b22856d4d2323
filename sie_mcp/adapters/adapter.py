"""What a model is to the engine: `prepare`, `forward`, `finish`, and the packed batch between them.

`prepare` and `finish` run on worker threads, several at once; `forward` runs on the device thread
alone. Nothing here knows a task or an architecture.
"""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from sie_mcp.adapters.buckets import (
    EXACT_FROM,
    Bucket,
    KeyBlock,
    make_buckets,
    make_key_block,
)
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.image_patches import ImagePatches, Images
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import SieError
from sie_mcp.wire import ModelCard, Request, Response


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Tokens that several sequences begin with; a batch computes them once.

    Only for models in which no token sees a later one: its states are then the same for all.
    """

    input_ids: np.ndarray


@dataclass(slots=True)
class Sequence:
    """One tokenised item waiting or running.

    Attributes:
        input_ids: int64 `(num_tokens,)`, at least one token.
        token_type_ids: int64 `(num_tokens,)`, or None for all zero.
        outputs: What `forward` must compute for it, e.g. {"dense"}; a batch computes the union.
        num_prompt_tokens: Leading tokens that pooling leaves out.
        num_attended: Leading tokens that others may attend to; None is all. The rest sees them
            and is not seen (ColBERT's query expansion).
        prefix: What stands before `input_ids`; the same object in every sequence that shares it.
        lora: The adapter that it runs with.
        extra: What the model's own `forward` needs to know of it beside its tokens.
        image: What is read instead of ids, which then only count its tokens.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray | None = None
    outputs: frozenset[str] = frozenset()
    num_prompt_tokens: int = 0
    num_attended: int | None = None
    prefix: Prefix | None = None
    lora: Lora | None = None
    extra: Any = None
    image: ImagePatches | None = None

    @property
    def num_tokens(self) -> int:
        """Real tokens, those of the prefix and special ones included: what the scheduler counts."""
        return len(self.input_ids) + (0 if self.prefix is None else len(self.prefix.input_ids))


@dataclass(frozen=True, slots=True)
class Keys:
    """The tokens that can be attended to: their places (None: all) and where sequences start."""

    rows: torch.Tensor | None
    cu_seqlens: torch.Tensor
    max_seqlen: int


@dataclass(frozen=True, slots=True)
class Laid:
    """A batch's numbers on the device in two pieces, as recorded passes copy them.

    Attributes:
        ids: Token ids, positions and types, int64 `(3, num_tokens)`.
        numbers: Ends of sequences and tiles, int32; `tiles.Layout` says how.
        size: What they are laid out for; None: for no recorded pass.
        tile_rows: Queries of a tile.
    """

    ids: torch.Tensor
    numbers: torch.Tensor
    size: int | None
    tile_rows: int


@dataclass(frozen=True)
class PackedBatch:
    """Sequences laid end to end, without padding.

    Attributes:
        input_ids: int64 `(num_tokens,)`.
        position_ids: int64 `(num_tokens,)`, 0..n-1 in each sequence, on from its prefix.
        token_type_ids: int64 `(num_tokens,)`.
        cu_seqlens: int32 `(num_seqs + 1,)`, where each sequence starts, and the end.
        lengths: The same as host integers, `num_seqs` of them: no device sync to read them.
        outputs: The union of what the sequences ask for.
        prompt_lengths: Leading tokens of each sequence that pooling leaves out.
        attended: Leading tokens of each sequence that others may attend to; None: all of all.
        prefix_of: For each sequence which other one stands before it, -1 for none; None: for none
            of them. The prefixes are the batch's first sequences.
        loras: The adapter of each sequence; None: none has one.
        extras: What each sequence has for the model's own `forward`.
        images: What the sequences are where they are images; their ids mean nothing.
        allows_kernels: False: attention on padded blocks even where a kernel reads packed ones, to
            hold one against the other.
        paths: The faster ways that it may take, of fast_paths.py.
        tiles: The queries of one program of a kernel each, as `make_tiles` lays them out; None: not
            laid out.
        tile_rows: Queries of a tile.
        laid: The same numbers in fewer pieces; None: not laid out.
        longest: No sequence is longer; given where lengths are on the device alone, in a recorded
            graph. Whoever asks the host for them then fails.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    token_type_ids: torch.Tensor
    cu_seqlens: torch.Tensor
    lengths: tuple[int, ...]
    outputs: frozenset[str] = frozenset()
    prompt_lengths: tuple[int, ...] | None = None
    attended: tuple[int, ...] | None = None
    prefix_of: tuple[int, ...] | None = None
    loras: tuple[Lora | None, ...] | None = None
    extras: tuple[Any, ...] = ()
    images: Images | None = None
    allows_kernels: bool = True
    paths: frozenset[str] = frozenset()
    tiles: torch.Tensor | None = None
    tile_rows: int = 0
    laid: Laid | None = None
    longest: int | None = None

    @property
    def num_prefixes(self) -> int:
        """How many of the sequences are prefixes of others."""
        return 0 if self.prefix_of is None else max(self.prefix_of) + 1

    @property
    def num_seqs(self) -> int:
        """How many sequences are packed, prefixes included."""
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences."""
        return int(self.input_ids.shape[0])

    @property
    def max_seqlen(self) -> int:
        """Tokens of the longest sequence, or a limit of it."""
        return max(self.lengths) if self.longest is None else self.longest

    @cached_property
    def segments(self) -> torch.Tensor:
        """The sequence each token belongs to, int64 `(num_tokens,)`."""
        if self.longest is not None:
            ends = self.cu_seqlens[1:]
            tokens = torch.arange(self.num_tokens, device=ends.device, dtype=ends.dtype)
            # Tokens behind the last sequence count as its.
            return torch.searchsorted(ends, tokens, right=True).clamp(max=len(ends) - 1)
        places = torch.arange(self.num_seqs, device=self.input_ids.device)
        return places.repeat_interleave(
            # Where the device still waits for something, this does not wait with it.
            torch.tensor(self.lengths).to(places.device, non_blocking=True),
            output_size=self.num_tokens,
        )

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """Sequences of similar length, for kernels that need padding; made once a batch."""
        assert self.longest is None  # No lengths on the host.
        return make_buckets(self.lengths, self.attended or self.lengths, self.input_ids.device)

    @cached_property
    def exact_buckets(self) -> tuple[Bucket, ...]:
        """The same, but long sequences only beside others of just their length: no padding."""
        seen = self.attended or self.lengths
        return make_buckets(self.lengths, seen, self.input_ids.device, exact_from=EXACT_FROM)

    @cached_property
    def key_blocks(self) -> tuple[KeyBlock, ...]:
        """What each bucket sees where sequences have prefixes."""
        assert self.prefix_of is not None
        return tuple(
            make_key_block(bucket, self.lengths, self.prefix_of, self.input_ids.device)
            for bucket in self.buckets
        )

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each sequence starts, and the end, as host integers."""
        return (0, *itertools.accumulate(self.lengths))

    @cached_property
    def keys(self) -> Keys:
        """Which tokens can be attended to, in the packed form that kernels take."""
        if self.prefix_of is not None:
            return self._keys_with_prefixes(self.prefix_of)
        if self.attended is None:
            return Keys(rows=None, cu_seqlens=self.cu_seqlens, max_seqlen=self.max_seqlen)
        device = self.input_ids.device
        counts = torch.tensor(self.attended).to(device, non_blocking=True)
        rows = torch.nonzero(self.position_ids < counts[self.segments]).flatten()
        cu_seqlens = torch.tensor((0, *itertools.accumulate(self.attended)), dtype=torch.int32)
        return Keys(rows=rows, cu_seqlens=cu_seqlens.to(device), max_seqlen=max(self.attended))

    def _keys_with_prefixes(self, prefix_of: tuple[int, ...]) -> Keys:
        """Let each sequence see its prefix's tokens, then its own."""
        places = [range(*self.offsets[index : index + 2]) for index in range(self.num_seqs)]
        rows = [
            np.concatenate([places[before], own] if before >= 0 else [own])
            for before, own in zip(prefix_of, places, strict=True)
        ]
        lengths = [len(one) for one in rows]
        device = self.input_ids.device
        cu_seqlens = torch.tensor((0, *itertools.accumulate(lengths)), dtype=torch.int32)
        return Keys(
            rows=torch.from_numpy(np.concatenate(rows)).to(device),
            cu_seqlens=cu_seqlens.to(device),
            max_seqlen=max(lengths),
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """An output on the device: sequence i owns `values[offsets[i]:offsets[i + 1]]`."""

    values: torch.Tensor
    offsets: tuple[int, ...]


# One named output each, e.g. {"dense": Rows, "sparse_indices": Rows, "sparse_values": Rows}.
Outputs = dict[str, Rows]
# The same for one sequence, on the host.
SequenceOutput = dict[str, np.ndarray]
# What became of one sequence: its output, or why there is none.
Result = SequenceOutput | SieError


@dataclass(slots=True)
class Prepared:
    """A request ready to run. `notes` is the adapter's own memory for `finish`."""

    sequences: list[Sequence]
    notes: Any = None
    num_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_tokens = sum(sequence.num_tokens for sequence in self.sequences)


class Adapter(Protocol):
    """A loaded model."""

    card: ModelCard

    @property
    def tokenizer(self) -> TextTokenizer | None:
        """What makes ids of texts; None: it takes no ids for texts."""

    @property
    def weights(self) -> FlatWeights | None:
        """All that it keeps on the device, which can leave and come back; None: nothing."""

    def prepare(self, request: Request) -> Prepared:
        """Check and tokenise; decide truncation. Thread-safe.

        Raises:
            InvalidInput: what the caller can fix, naming the item.
        """

    def forward(self, batch: PackedBatch) -> Outputs:
        """Run the model on the device. Device thread only."""

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Turn outputs, one a sequence in order, into the response. Thread-safe.

        A sequence whose forward failed has its error there; `finish` gives it to the item.
        """
