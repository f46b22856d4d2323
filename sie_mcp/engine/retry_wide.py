"""The second try of sequences whose numbers outgrew half precision: once more, in float32.

Finds them and says what became of them; the device thread runs them like all others.
"""

import logging
from collections.abc import Callable
from functools import lru_cache

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Outputs, PackedBatch, Prepared, Result, Sequence
from sie_mcp.adapters.packing import unpack
from sie_mcp.adapters.results import ADVICE, non_finite
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import InferenceError, NonFiniteOutput
from sie_mcp.wire import Request, Response

logger = logging.getLogger(__name__)

_LAST_ADVICE = "it is not in float32 either: send a shorter text, or use another model"

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
            return self._adapter.forward(batch)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """As the adapter's own."""
        return self._adapter.finish(request, prepared, outputs)


def unpack_finite(adapter: Adapter, outputs: Outputs, num_seqs: int) -> list[Result]:
    """Copy outputs to the host, an error in place of each sequence that is not finite."""
    # Asked on the device: the host would read every number of every batch.
    is_finite = _all_finite(outputs)
    results = unpack(outputs, num_seqs)
    if is_finite:
        return list(results)
    advice = _LAST_ADVICE if isinstance(adapter, WideAdapter) else ADVICE
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


def _all_finite(outputs: Outputs) -> bool:
    ends = [
        end.float()
        for rows in outputs.values()
        if rows.values.is_floating_point() and rows.values.numel()
        # One pass without a copy; a number that is none becomes both ends.
        for end in torch.aminmax(rows.values)
    ]
    return not ends or bool(torch.stack(ends).isfinite().all())


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
