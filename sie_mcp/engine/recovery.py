"""Forward passes that may fail: what is tried before one sequence gets an error, and no other does.

Runs on the device thread. Knows no queue, no task and no architecture.
"""

import logging
import time
from collections.abc import Callable

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.retry_wide import WideAdapter, retry_wide, unpack_finite
from sie_mcp.errors import InferenceError, OutOfMemory, SieError

logger = logging.getLogger(__name__)

SMALLEST_BUDGET = 64


class Forwards:
    """Runs sequences of one adapter together, and what fails again in smaller parts.

    Args:
        device: Where forward passes run.
        evict: Frees device memory by evicting one idle model; False when there is none.
        beat: Called before each forward pass.
        retries_nonfinite: Run what is not finite again in float32; no use where weights are that.
    """

    def __init__(
        self,
        device: torch.device,
        evict: Callable[[], bool],
        beat: Callable[[], None],
        *,
        retries_nonfinite: bool,
    ) -> None:
        self._device = device
        self._evict = evict
        self._beat = beat
        self._retries_nonfinite = retries_nonfinite
        # Per adapter: what once did not fit is not tried again.
        self._learned_tokens: dict[str, int] = {}
        self.tokens_per_s = 0.0

    def run(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        """Return a result or an error for each sequence; never raises."""
        results = self._compute(adapter, sequences)
        if self._retries_nonfinite:
            results = retry_wide(adapter, sequences, results, self._compute)
        return results

    def budget(self) -> int | None:
        """Return the most tokens that a batch should have; None when nothing was learned."""
        return min(self._learned_tokens.values(), default=None)

    def _compute(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        started_s = time.monotonic()
        try:
            results = self._forward(adapter, sequences)
        except torch.OutOfMemoryError as error:
            return self._after_out_of_memory(adapter, sequences, error)
        except SieError as error:
            return self._alone(adapter, sequences, error)
        except Exception as error:
            # The device loop is one of the two places that may catch everything: it must go on.
            logger.exception(
                "forward failed model=%s sequences=%d", adapter.card.name, len(sequences)
            )
            message = f"the forward pass failed ({type(error).__name__})"
            return self._alone(adapter, sequences, InferenceError(message))
        self._account(sum(one.num_tokens for one in sequences), time.monotonic() - started_s)
        return results

    def _forward(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        self._beat()
        with torch.inference_mode():
            outputs = adapter.forward(pack(sequences, self._device))
            return unpack_finite(adapter, outputs, len(sequences))

    def _alone(self, adapter: Adapter, sequences: list[Sequence], error: SieError) -> list[Result]:
        """Run the halves of a failed batch until the sequence at fault is alone with its error."""
        if len(sequences) == 1:
            return [error]
        middle = len(sequences) // 2
        return self._compute(adapter, sequences[:middle]) + self._compute(
            adapter, sequences[middle:]
        )

    def _after_out_of_memory(
        self, adapter: Adapter, sequences: list[Sequence], error: Exception
    ) -> list[Result]:
        """Drop caches, evict an idle model, then halve the batch; alone, give a retryable error."""
        self._empty_caches()
        if self._evict():
            metrics.OUT_OF_MEMORY.labels("evict").inc()
            return self._compute(adapter, sequences)
        tokens = sum(one.num_tokens for one in sequences)
        if len(sequences) > 1:
            metrics.OUT_OF_MEMORY.labels("halve").inc()
            # A second try in float32 says nothing of what else fits.
            if not isinstance(adapter, WideAdapter):
                learned = max(tokens // 2, SMALLEST_BUDGET)
                self._learned_tokens[adapter.card.name] = learned
                logger.warning("out of memory model=%s new_budget=%d", adapter.card.name, learned)
            return self._alone(adapter, sequences, OutOfMemory("out of memory"))
        metrics.OUT_OF_MEMORY.labels("fail").inc()
        logger.warning("out of memory model=%s tokens=%d alone", adapter.card.name, tokens)
        text = f"a sequence of {tokens} tokens does not fit in device memory now ({error!s:.80})"
        return [OutOfMemory(text, retry_after_s=1.0)]

    def _empty_caches(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _account(self, tokens: int, seconds: float) -> None:
        metrics.BATCH_TOKENS.observe(tokens)
        metrics.BATCH_SECONDS.observe(seconds)
        metrics.TOKENS.inc(tokens)
        speed = tokens / max(seconds, 1e-6)
        self.tokens_per_s = (
            speed if not self.tokens_per_s else (0.8 * self.tokens_per_s + 0.2 * speed)
        )
