"""Adding each text's own adapter while a batch runs: several adapters, one forward pass.

A linear layer or table that some adapter changes gets a hook once; while no batch with adapters
runs, the hook does nothing.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.adapter import Outputs, PackedBatch
from sie_mcp.adapters.lora import Lora
from sie_mcp.errors import InferenceError

Forward = Callable[[Any, PackedBatch], Outputs]


def with_loras(forward: Forward) -> Forward:
    """Make an adapter's forward pass add the low-rank adapters of its batch."""

    @functools.wraps(forward)
    def run(self: Any, batch: PackedBatch) -> Outputs:
        with self._model.loras.applied(batch):
            return forward(self, batch)

    return run


class LoraHooks:
    """The adapters of one model's batch. Device thread only."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._hooked: set[str] = set()
        self._batch: PackedBatch | None = None

    @contextmanager
    def applied(self, batch: PackedBatch) -> Iterator[None]:
        """Add the adapters of the batch to what layers give, while the context lasts."""
        if batch.loras is None:
            yield
            return
        for lora in set(batch.loras) - {None}:
            assert lora is not None
            for name in lora.changes.keys() - self._hooked:
                self._hook(name)
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None

    def _hook(self, name: str) -> None:
        def change(module: nn.Module, inputs: tuple[Any, ...], outputs: torch.Tensor) -> None:
            if self._batch is None:
                return
            for rows, lora in _rows(self._batch, len(outputs)):
                for one in lora.changes.get(name, ()):
                    one.change(inputs[0][rows], outputs[rows])

        self._model.get_submodule(name).register_forward_hook(change)
        self._hooked.add(name)


def _rows(batch: PackedBatch, num_rows: int) -> Iterator[tuple[slice, Lora]]:
    """Yield the rows of each adapter in a layer that has a row a token, or one a sequence."""
    assert batch.loras is not None
    if num_rows == batch.num_tokens:
        offsets = batch.offsets
    elif num_rows == batch.num_seqs:
        offsets = tuple(range(num_rows + 1))
    elif num_rows == batch.num_seqs - batch.num_prefixes:
        offsets = tuple(max(place - batch.num_prefixes, 0) for place in range(batch.num_seqs + 1))
    else:
        raise InferenceError(f"an adapter changes a layer of {num_rows} rows, which are no text's")
    places = range(batch.num_seqs)
    for lora, group in itertools.groupby(places, key=lambda place: batch.loras[place]):  # type: ignore[index]
        own = list(group)
        if lora is not None:
            yield slice(offsets[own[0]], offsets[own[-1] + 1]), lora
