"""A model's weights in one piece of memory, so that one copy brings them to a device and back.

Every tensor of a module becomes a view of one buffer of bytes. The module, and all that hold it,
stay when the buffer goes: its tensors then point nowhere, and running it fails. Knows torch alone,
no model.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn

from sie_mcp.adapters.keeper import Keeper
from sie_mcp.adapters.on_meta import closed_strides

# Where CUDA's own allocator starts a tensor: kernels read whole vectors.
ALIGNMENT = 256

# What a tensor of this name becomes.
DtypeOf = Callable[[str, torch.Tensor], torch.dtype]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies in the buffer, in bytes, and how it is read there."""

    name: str
    tensor: torch.Tensor
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    first: int

    @property
    def end(self) -> int:
        """Where its own bytes end."""
        return self.first + self.shape.numel() * self.dtype.itemsize

    def view(self, buffer: torch.Tensor) -> torch.Tensor:
        """Return the tensor's part of a buffer."""
        own = buffer[self.first : self.end].view(self.dtype)
        return own.as_strided(self.shape, self.stride)


class FlatWeights:
    """All tensors of a module, on a device or away.

    `enter`, `leave` and `stage` are for one thread at a time, `leave` for when nothing runs.
    """

    def __init__(self, places: Sequence[Place], buffer: torch.Tensor) -> None:
        self._places = places
        self._buffer: torch.Tensor | None = buffer
        self._copied: torch.cuda.Event | None = None
        self._when_leaving: list[Callable[[], None]] = []
        self._keeper: Keeper | None = None
        self._taken: frozenset[str] = frozenset()
        self.copy_bytes = buffer.numel()

    @property
    def size_bytes(self) -> int:
        """What they take on the device; a copy of all tensors takes `copy_bytes`."""
        return self.copy_bytes + (0 if self._keeper is None else self._keeper.extra_bytes)

    def when_leaving(self, action: Callable[[], None]) -> None:
        """Have something done each time before the buffer goes: who keeps addresses drops them."""
        self._when_leaving.append(action)

    @property
    def is_here(self) -> bool:
        """Whether the module can run."""
        return self._buffer is not None

    @property
    def is_coming(self) -> bool:
        """Whether its copy to the device is perhaps still under way."""
        return self._copied is not None

    @contextmanager
    def freed_on_error(self) -> Iterator[None]:
        """Free the buffer if the context fails: who holds the error holds the module too."""
        try:
            yield
        except BaseException:
            self.leave()
            raise

    def stage(self, pages: Sequence[torch.Tensor]) -> None:
        """Copy to the host: uint8 pages, filled one after the other. Waits for the copy."""
        assert self._buffer is not None
        whole = self._buffer if self._keeper is None else self._gathered(self._keeper)
        with weights_stream(self._buffer.device):
            for page, part in self._parts(pages, whole):
                page[: len(part)].copy_(part, non_blocking=True)
        self.settle()

    def hand_over(self, keeper: Keeper) -> None:
        """Let another keep some tensors, now and whenever they come back; they lie here no more.

        Others' names for the same numbers stay here.
        """
        assert self._buffer is not None
        self._taken = frozenset(keeper.take())
        self._keeper = keeper
        kept = [place for place in self._places if place.name not in self._taken]
        firsts: dict[int, int] = {}
        end = 0
        for place in kept:
            if place.first not in firsts:
                firsts[place.first] = end
                end = aligned(end + place.end - place.first)
        whole, self._buffer = self._buffer, self._buffer.new_empty(end)
        for place in self._places:
            if place.name in self._taken:
                place.tensor.data = whole.new_empty(0).view(place.dtype)
                continue
            moved = replace(place, first=firsts[place.first]).view(self._buffer)
            moved.copy_(place.view(whole))
            place.tensor.data = moved

    def settle(self) -> None:
        """Wait until all that was written to it is there, for whichever stream reads it next."""
        if self._buffer is not None and self._buffer.is_cuda:
            _own_stream(self._buffer.device).synchronize()

    def leave(self) -> None:
        """Free the buffer, once what already waits on the device has run."""
        if self._buffer is None:
            return
        self.arrived()
        for action in self._when_leaving:
            action()
        device = self._buffer.device
        if device.type == "cuda":
            # The memory is next written to on this stream, and only there.
            _own_stream(device).wait_event(torch.cuda.current_stream(device).record_event())
        # Not of the meta device: a tensor cannot be pointed there.
        nothing = {
            dtype: torch.empty(0, dtype=dtype, device=device)
            for dtype in {place.dtype for place in self._places}
        }
        for place in self._places:
            place.tensor.data = nothing[place.dtype]
        if self._keeper is not None:
            self._keeper.drop()
        self._buffer = None

    def enter(self, device: torch.device, pages: Sequence[torch.Tensor]) -> None:
        """Fill a new buffer from pages that `stage` filled; the copy may be under way on return.

        Raises:
            torch.OutOfMemoryError: no room; nothing has changed.
        """
        assert self._buffer is None
        with weights_stream(device):
            buffer = torch.empty(self.copy_bytes, dtype=torch.uint8, device=device)
            for page, part in self._parts(pages, buffer):
                part.copy_(page[: len(part)], non_blocking=True)
            if buffer.is_cuda:
                self._copied = torch.cuda.current_stream(device).record_event()
        self._point_to(buffer)
        self._buffer = buffer
        if self._keeper is not None:
            self.hand_over(self._keeper)

    def follow(self) -> None:
        """Have what this thread runs next on the device wait there for the copy."""
        copied = self._copied
        if copied is not None and self._buffer is not None:
            torch.cuda.current_stream(self._buffer.device).wait_event(copied)

    def arrived(self) -> None:
        """Wait until the copy is done."""
        copied = self._copied
        if copied is not None:
            copied.synchronize()
            self._copied = None

    def _point_to(self, buffer: torch.Tensor) -> None:
        """Make every tensor its part of the buffer: hundreds, while a request waits."""
        storage = buffer.untyped_storage()
        with torch.no_grad():
            for place in self._places:
                first = place.first // place.dtype.itemsize
                place.tensor.set_(storage, first, place.shape, place.stride)

    def _gathered(self, keeper: Keeper) -> torch.Tensor:
        """Return a buffer with all tensors at their places, those that another keeps included."""
        whole = torch.empty(self.copy_bytes, dtype=torch.uint8)
        for place in self._places:
            is_taken = place.name in self._taken
            place.view(whole).copy_(keeper.plain(place.name) if is_taken else place.tensor.data)
        return whole

    def _parts(
        self, pages: Sequence[torch.Tensor], buffer: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return zip(pages, torch.split(buffer, len(pages[0])), strict=True)


def plan_places(
    module: nn.Module, dtype_of: DtypeOf, tied: Collection[str] = ()
) -> tuple[list[Place], int]:
    """Lay out a module's parameters and buffers; return their places and the bytes they take.

    Tensors that share memory share a place.

    Args:
        module: On any device, the meta device included.
        dtype_of: What each tensor becomes.
        tied: Parameters that will be another's and need no place.
    """
    places: list[Place] = []
    seen: dict[object, Place] = {}
    end = 0
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if name in tied:
            continue
        if (known := seen.get(_memory(tensor))) is not None:
            places.append(replace(known, name=name, tensor=tensor))
            continue
        place = Place(
            name, tensor, dtype_of(name, tensor), tensor.shape, closed_strides(tensor), end
        )
        places.append(place)
        seen[_memory(tensor)] = place
        end = aligned(place.end)
    return places, end


def aligned(size_bytes: int) -> int:
    """Return what a tensor of this size takes."""
    return size_bytes + -size_bytes % ALIGNMENT


def flatten(
    module: nn.Module, device: torch.device, dtype_of: DtypeOf, tied: Collection[str] = ()
) -> FlatWeights:
    """Make a module's tensors views of one new buffer; those on the meta device hold no values yet.

    Call inside `weights_stream`. Tensors are converted one by one, and each frees what it took.
    """
    places, size_bytes = plan_places(module, dtype_of, tied)
    buffer = torch.empty(size_bytes, dtype=torch.uint8, device=device)
    for index, place in enumerate(places):
        view = place.view(buffer)
        if place.tensor.is_meta:
            parameter = nn.Parameter(view, requires_grad=False)
            owner, _, attribute = place.name.rpartition(".")
            setattr(module.get_submodule(owner), attribute, parameter)
            places[index] = replace(place, tensor=parameter)
        else:
            view.copy_(place.tensor.detach())
            place.tensor.requires_grad_(False)
            place.tensor.data = view
    return FlatWeights(places, buffer)


@contextmanager
def weights_stream(device: torch.device) -> Iterator[None]:
    """Allocate and copy on a stream that weights have to themselves.

    Memory belongs to the stream it was made on: a model's whole buffer, freed, is there for the
    next model and not cut up for the intermediate results of a batch.
    """
    if device.type != "cuda":
        yield
        return
    with torch.cuda.stream(_own_stream(device)):
        yield


def _own_stream(device: torch.device) -> torch.cuda.Stream:
    index = torch.cuda.current_device() if device.index is None else device.index
    return _stream(index)


@cache
def _stream(index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(index)  # type: ignore[no-untyped-call]


def _memory(tensor: torch.Tensor) -> object:
    """Return what two tensors have in common that are the same numbers."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    return (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
