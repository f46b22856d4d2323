"""Forward passes that may fail: what is tried before one sequence gets an error, and no other does.

Runs on the device thread. Knows no queue, no task and no architecture.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.adapters.fast_paths import paths_of, read_layout
from sie_mcp.adapters.packing import alike, pack
from sie_mcp.engine.budgets import Budgets
from sie_mcp.engine.device_faults import DeviceLost, is_device_lost, is_out_of_memory
from sie_mcp.engine.retry_wide import OnItsWay, WideAdapter, retry_wide
from sie_mcp.errors import InferenceError, OutOfMemory, SieError

logger = logging.getLogger(__name__)

T = TypeVar("T")
# What is on its way, or why it never began; and what waits for it.
Attempt = OnItsWay | SieError
Finish = Callable[[], list[Result]]


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
        self._finished_s = 0.0
        self.budgets = Budgets()

    def run(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        """Return a result or an error for each sequence.

        Raises:
            DeviceLost: no forward pass of this process can succeed any more.
        """
        return self.start(adapter, sequences)()

    def start(self, adapter: Adapter, sequences: list[Sequence]) -> Finish:
        """Have the device begin; return what waits for it, and then does what `run` does.

        Whatever is started later is finished later.

        Raises:
            DeviceLost: as `run`; so does what is returned.
        """
        groups = alike(sequences)
        if len(groups) > 1:
            return lambda: self._run_groups(adapter, sequences, groups)
        started_s = time.monotonic()
        attempt = self._attempt(adapter, sequences)
        return lambda: self._finish(adapter, sequences, attempt, started_s)

    def _run_groups(
        self, adapter: Adapter, sequences: list[Sequence], groups: list[list[int]]
    ) -> list[Result]:
        results: dict[int, Result] = {}
        for places in groups:
            part = self.run(adapter, [sequences[place] for place in places])
            results |= zip(places, part, strict=True)
        return [results[place] for place in range(len(sequences))]

    def _finish(
        self,
        adapter: Adapter,
        sequences: list[Sequence],
        attempt: Attempt,
        started_s: float,
    ) -> list[Result]:
        outcome = self._outcome(adapter, sequences, attempt, started_s)
        results = self._recover(adapter, sequences, outcome)
        if self._retries_nonfinite:
            results = retry_wide(adapter, sequences, results, self._compute)
        return results

    def _compute(
        self, adapter: Adapter, sequences: list[Sequence], *, may_evict: bool = True
    ) -> list[Result]:
        """Run; after a failure go down the ladder until it works or one sequence is alone."""
        started_s = time.monotonic()
        attempt = self._attempt(adapter, sequences)
        outcome = self._outcome(adapter, sequences, attempt, started_s)
        return self._recover(adapter, sequences, outcome, may_evict=may_evict)

    def _recover(
        self,
        adapter: Adapter,
        sequences: list[Sequence],
        outcome: list[Result] | SieError,
        *,
        may_evict: bool = True,
    ) -> list[Result]:
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

    def _attempt(self, adapter: Adapter, sequences: list[Sequence]) -> Attempt:
        """Begin the forward pass; return what is on its way, or the error of all its sequences.

        Raises:
            DeviceLost: no forward pass can succeed any more.
        """
        return self._guarded(adapter, sequences, lambda: self._forward(adapter, sequences))

    def _outcome(
        self, adapter: Adapter, sequences: list[Sequence], attempt: Attempt, started_s: float
    ) -> list[Result] | SieError:
        """Wait for what was begun; return results, or the error of all sequences.

        Raises:
            DeviceLost: as `_attempt`.
        """
        if isinstance(attempt, SieError):
            return attempt
        results = self._guarded(adapter, sequences, attempt.results)
        if isinstance(results, SieError):
            return results
        num_tokens = _num_tokens(sequences)
        # What was begun while another pass ran took its time from that one's end.
        now_s = time.monotonic()
        seconds = now_s - max(started_s, self._finished_s)
        self._finished_s = now_s
        self._account(adapter.card.name, num_tokens, seconds)
        self.budgets.fitted(adapter.card.name, num_tokens)
        return results

    def _guarded(
        self, adapter: Adapter, sequences: list[Sequence], action: Callable[[], T]
    ) -> T | SieError:
        try:
            return action()
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

    def _forward(self, adapter: Adapter, sequences: list[Sequence]) -> OnItsWay:
        self._beat()
        if adapter.weights is not None:
            adapter.weights.follow()
        with torch.inference_mode():
            paths = paths_of(adapter)
            batch = pack(sequences, self._device, is_laid_out=read_layout(paths))
            outputs = adapter.forward(batch)
            return OnItsWay(adapter, outputs, len(sequences), is_pinned="overlap" in paths)

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
