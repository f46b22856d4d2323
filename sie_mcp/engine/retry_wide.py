"""The second try of sequences whose numbers outgrew half precision: once more, in float32.

Finds them and says what became of them; the device thread runs them like all others.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Outputs, PackedBatch, Prepared, Result, Sequence
from sie_mcp.adapters.packing import Copies, cut
from sie_mcp.adapters.results import ADVICE, non_finite
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import InferenceError, NonFiniteOutput
from sie_mcp.wire import Request, Response

logger = logging.getLogger(__name__)

_LAST_ADVICE = "it is not in float32 either: send a shorter text, or use another model"

# Fewer than these are read on the host in less time than the device takes to be asked.
MAX_HOST_NUMBERS = 1_000_000

Compute = Callable[[Adapter, list[Sequence]], list[Result]]


class WideAdapter:
    """An adapter that computes in float32, whatever its weights' precision."""

    def __init__(self, adapter: Adapter) -> None:
        self.card = adapter.card
        self.weights = adapter.weights
        self.tokenizer = adapter.tokenizer
        self._adapter = adapter

    def prepare(self, request: Request) -> Prepared:
        """As the adapter's own."""
        return self._adapter.prepare(request)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Run the model in float32: slower, and attention on padded blocks."""
        with widened():
            return self._adapter.forward(replace(batch, allows_kernels=False))

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """As the adapter's own."""
        return self._adapter.finish(request, prepared, outputs)


class OnItsWay:
    """Outputs that a device still computes, and copies to the host.

    Args:
        adapter: What they are of.
        outputs: Of its forward pass.
        num_seqs: Of the batch.
        is_pinned: The copies begin now; otherwise when they are waited for.
    """

    def __init__(
        self, adapter: Adapter, outputs: Outputs, num_seqs: int, *, is_pinned: bool = False
    ) -> None:
        self._adapter, self._outputs, self._num_seqs = adapter, outputs, num_seqs
        # Asked on the device where there are many: the host would read every number of a batch.
        is_many = sum(rows.values.numel() for rows in outputs.values()) > MAX_HOST_NUMBERS
        self._is_finite = _all_finite(outputs) if is_many else None
        self._copies = Copies(outputs, is_pinned=is_pinned)

    def results(self) -> list[Result]:
        """Wait; return what each sequence gives, an error in place of what is not finite."""
        values = self._copies.arrived()
        results = cut(self._outputs, values, self._num_seqs)
        asked = self._is_finite
        if _have_finite_sums(values) if asked is None else bool(asked):
            return list(results)
        advice = _LAST_ADVICE if isinstance(self._adapter, WideAdapter) else ADVICE
        return [non_finite(one, advice) or one for one in results]


def retry_wide(
    adapter: Adapter, sequences: list[Sequence], results: list[Result], compute: Compute
) -> list[Result]:
    """Return the results, those that are not finite replaced by what float32 gives.

    Args:
        adapter: What they were computed with.
        sequences: As many as results.
        results: NonFiniteOutput where a second try is due.
        compute: Runs sequences, and settles what goes wrong with them.
    """
    places = [place for place, one in enumerate(results) if isinstance(one, NonFiniteOutput)]
    if not places:
        return results
    metrics.NONFINITE_RETRIES.inc(len(places))
    _log_first(adapter.card.name)
    again = compute(WideAdapter(adapter), [sequences[place] for place in places])
    for place, result in zip(places, again, strict=True):
        results[place] = _last_word(result)
    return results


def _have_finite_sums(values: list[np.ndarray]) -> bool:
    """Whether sums show that all is finite; one that overflows shows nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return all(bool(np.isfinite(one.sum())) for one in values if one.dtype.kind == "f")


def _all_finite(outputs: Outputs) -> torch.Tensor | bool:
    ends = [
        end.float()
        for rows in outputs.values()
        if rows.values.is_floating_point() and rows.values.numel()
        # One pass without a copy; a number that is none becomes both ends.
        for end in torch.aminmax(rows.values)
    ]
    return torch.stack(ends).isfinite().all() if ends else True


def _last_word(result: Result) -> Result:
    """Return the result of a second try: one that cannot run is no more than the first."""
    if isinstance(result, InferenceError):
        return NonFiniteOutput(f"the model's output is not finite, in float32 {result}; {ADVICE}")
    return result


@lru_cache(maxsize=256)
def _log_first(model: str) -> None:
    logger.warning(
        "numbers not finite, running again in float32 model=%s (logged once; counted in "
        "sie_nonfinite_retries_total)",
        model,
    )
