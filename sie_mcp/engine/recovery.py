"""Forward passes that may fail: what is tried before one sequence gets an error, and no other does.

Runs on the device thread. Knows no queue, no task and no architecture.
"""

import logging
import time
from collections.abc import Callable

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.adapters.packing import alike, pack
from sie_mcp.engine.budgets import Budgets
from sie_mcp.engine.device_faults import DeviceLost, is_device_lost, is_out_of_memory
from sie_mcp.engine.retry_wide import WideAdapter, retry_wide, unpack_finite
from sie_mcp.errors import InferenceError, OutOfMemory, SieError

logger = logging.getLogger(__name__)


class Forwards:
    """Runs sequences of one adapter together, and what fails again in smaller parts.

    Args:
        device: Where forward passes run.
        evict: Frees device memory by evicting one idle model; False when there is none.
        beat: Called before each forward pass.
        note_speed: Told of each that ran: model, tokens, seconds.
        retries_nonfinite: Run what is not finite again in float32; no use where weights are that.
    """

    def __init__(
        self,
        device: torch.device,
        evict: Callable[[], bool],
        beat: Callable[[], None],
        note_speed: Callable[[str, int, float], None],
        *,
        retries_nonfinite: bool,
    ) -> None:
        self._device = device
        self._evict = evict
        self._beat = beat
        self._note_speed = note_speed
        self._retries_nonfinite = retries_nonfinite
        self.budgets = Budgets()

    def run(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        """Return a result or an error for each sequence.

        Raises:
            DeviceLost: no forward pass of this process can succeed any more.
        """
        results: dict[int, Result] = {}
        for places in alike(sequences):
            part = [sequences[place] for place in places]
            results |= zip(places, self._run_alike(adapter, part), strict=True)
        return [results[place] for place in range(len(sequences))]

    def _run_alike(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        results = self._compute(adapter, sequences)
        if self._retries_nonfinite:
            results = retry_wide(adapter, sequences, results, self._compute)
        return results

    def _compute(
        self, adapter: Adapter, sequences: list[Sequence], *, may_evict: bool = True
    ) -> list[Result]:
        """Run; after a failure go down the ladder until it works or one sequence is alone."""
        outcome = self._attempt(adapter, sequences)
        # Out here the failure's traceback is gone, and with it the tensors that its frames held.
        if isinstance(outcome, list):
            return outcome
        if isinstance(outcome, OutOfMemory):
            self._empty_caches()
            # One model a batch: an input that never fits must not empty the device.
            if may_evict and self._evict():
                metrics.OUT_OF_MEMORY.labels("evict").inc()
                return self._compute(adapter, sequences, may_evict=False)
            may_evict = False
            self._learn(adapter, sequences)
        if len(sequences) == 1:
            return [outcome]
        return [
            result
            for part in _parts(sequences)
            for result in self._compute(adapter, part, may_evict=may_evict)
        ]

    def _attempt(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result] | SieError:
        """Run the forward pass; return its results, or the error of all its sequences.

        Raises:
            DeviceLost: no forward pass can succeed any more.
        """
        started_s = time.monotonic()
        try:
            results = self._forward(adapter, sequences)
        except SieError as error:
            return error.with_traceback(None)
        except Exception as error:
            # The device loop is one of the two places that may catch everything: it must go on.
            if is_out_of_memory(error):
                return _no_memory(sequences, error)
            if is_device_lost(error, self._device):
                raise DeviceLost(f"{type(error).__name__}: {error!s:.200}") from error
            logger.exception(
                "forward failed model=%s sequences=%d", adapter.card.name, len(sequences)
            )
            return InferenceError(f"the forward pass failed ({type(error).__name__})")
        num_tokens = _num_tokens(sequences)
        self._account(adapter.card.name, num_tokens, time.monotonic() - started_s)
        self.budgets.fitted(adapter.card.name, num_tokens)
        return results

    def _forward(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        self._beat()
        if adapter.weights is not None:
            adapter.weights.follow()
        with torch.inference_mode():
            outputs = adapter.forward(pack(sequences, self._device))
            return unpack_finite(adapter, outputs, len(sequences))

    def _learn(self, adapter: Adapter, sequences: list[Sequence]) -> None:
        model, num_tokens = adapter.card.name, _num_tokens(sequences)
        if len(sequences) == 1:
            metrics.OUT_OF_MEMORY.labels("fail").inc()
            logger.warning("out of memory model=%s tokens=%d alone", model, num_tokens)
            return
        metrics.OUT_OF_MEMORY.labels("halve").inc()
        # A second try in float32 says nothing of what else fits.
        if not isinstance(adapter, WideAdapter):
            budget = self.budgets.did_not_fit(model, num_tokens)
            logger.warning("out of memory model=%s new_budget=%d", model, budget)

    def _empty_caches(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _account(self, model: str, tokens: int, seconds: float) -> None:
        metrics.BATCH_TOKENS.observe(tokens)
        metrics.BATCH_SECONDS.observe(seconds)
        metrics.TOKENS.inc(tokens)
        self._note_speed(model, tokens, seconds)


def _parts(sequences: list[Sequence]) -> list[list[Sequence]]:
    """Cut two or more sequences into parts that have at most half of the tokens, or are alone."""
    most_tokens = _num_tokens(sequences) // 2
    parts: list[list[Sequence]] = [[]]
    left = most_tokens
    for one in sequences:
        if parts[-1] and one.num_tokens > left:
            parts.append([])
            left = most_tokens
        parts[-1].append(one)
        left -= one.num_tokens
    return parts


def _no_memory(sequences: list[Sequence], error: Exception) -> OutOfMemory:
    """Say what a caller reads once a sequence is alone; of more than one nobody reads it."""
    return OutOfMemory(
        f"a sequence of {_num_tokens(sequences)} tokens does not fit in memory now "
        f"({error!s:.80}); call again, or send a shorter text"
    )


def _num_tokens(sequences: list[Sequence]) -> int:
    return sum(one.num_tokens for one in sequences)
