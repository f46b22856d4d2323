"""When the steps of a request ended: what its caller reads of it, and its spans. Pure."""

from dataclasses import dataclass

from sie_mcp import tracing, wire


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The ends of steps, in seconds of one clock; the queue's is a duration.

    Attributes:
        started_s: The request came.
        ready_s: Its model was there.
        prepared_s: It was tokenised.
        queue_s: How long it waited then.
        ran_s: The device was done with it.
        ended_s: It had its results.
    """

    started_s: float
    ready_s: float
    prepared_s: float
    queue_s: float
    ran_s: float
    ended_s: float

    def timing(self) -> wire.Timing:
        """Return what the response says."""
        return wire.Timing(
            total_ms=_ms(self.ended_s - self.started_s),
            queue_ms=_ms(self.queue_s),
            tokenization_ms=_ms(self.prepared_s - self.ready_s),
            inference_ms=_ms(self.ran_s - self.prepared_s - self.queue_s),
            postprocessing_ms=_ms(self.ended_s - self.ran_s),
        )

    def trace(self, num_tokens: int) -> None:
        """Add a span for each step to the request's."""
        run_s = self.prepared_s + self.queue_s
        tracing.past_span("load", self.started_s, self.ready_s)
        tracing.past_span("tokenise", self.ready_s, self.prepared_s, tokens=num_tokens)
        tracing.past_span("queue", self.prepared_s, run_s)
        tracing.past_span("run", run_s, self.ran_s)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
