"""The faster ways to compute on CUDA: "kernels", "graphs", "overlap".

Each is off unless it was asked for, and off again, with a line in the log and in the metrics, where
it does not give what the plain way gives. Knows no kernel and no graph.
"""

import logging
from dataclasses import replace

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Outputs, PackedBatch, Prepared, Result
from sie_mcp.wire import ModelCard, Request, Response

logger = logging.getLogger(__name__)

# Those that read a batch's numbers as `tiles.Layout` lays them out.
_READ_LAYOUT = {"kernels", "graphs"}


class FastAdapter:
    """An adapter whose batches may take faster ways; all else is the adapter's own.

    Args:
        adapter: Takes the plain way by itself.
        paths: Those that it was seen to take well.
    """

    def __init__(self, adapter: Adapter, paths: frozenset[str]) -> None:
        self.paths = paths
        self.weights, self.tokenizer = adapter.weights, adapter.tokenizer
        self._adapter = adapter

    @property
    def card(self) -> ModelCard:
        """As the adapter's own."""
        return self._adapter.card

    @card.setter
    def card(self, card: ModelCard) -> None:
        self._adapter.card = card

    def forward(self, batch: PackedBatch) -> Outputs:
        """Run the model; a batch that allows no kernels takes the plain way."""
        if not batch.allows_kernels:
            return self._adapter.forward(batch)
        return self._adapter.forward(replace(batch, paths=self.paths))

    def prepare(self, request: Request) -> Prepared:
        """As the adapter's own."""
        return self._adapter.prepare(request)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """As the adapter's own."""
        return self._adapter.finish(request, prepared, outputs)


def paths_of(adapter: Adapter) -> frozenset[str]:
    """Return the faster ways that an adapter's batches may take."""
    return adapter.paths if isinstance(adapter, FastAdapter) else frozenset()


def read_layout(paths: frozenset[str]) -> bool:
    """Whether any of them needs a batch to be laid out."""
    return not paths.isdisjoint(_READ_LAYOUT)


def report_off(path: str, what: str, reason: str) -> None:
    """Say that a way is not taken, and why.

    Args:
        path: Which.
        what: A model, or a part of the way.
        reason: What it did.
    """
    metrics.FAST_PATHS_OFF.labels(path).inc()
    logger.warning("faster way off path=%s for=%s reason=%.200s", path, what, reason)
