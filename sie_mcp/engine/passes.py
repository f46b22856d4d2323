"""Which measurements of a model's batches are believed, and when the next one is due.

Pure: no clock, no model, no torch.
"""

from dataclasses import dataclass

# What disturbed the machine has had so long to end; each further pause is twice as long.
FIRST_PAUSE_S = 30.0
# In a quarter of an hour, at that.
MAX_PASSES = 6


@dataclass(frozen=True, slots=True)
class _Tries:
    """How often a model was measured in vain, what came of it last, and when it is due again."""

    times: int = 0
    tokens: int | None = None
    next_s: float = 0.0


class Passes:
    """Who is measured when, and what is believed of it: a knee below the default not at once.

    On a machine that was busy meanwhile small batches look better than they are, since they slip
    through where large ones are held up; and what is believed is kept for ever. So a second
    measurement, some time later, must say nearly the same.

    Args:
        default: The size that holds meanwhile.
    """

    def __init__(self, default: int) -> None:
        self._default = default
        self._tries: dict[str, _Tries] = {}

    def is_due(self, model: str, now_s: float) -> bool:
        """Whether a model may be measured now."""
        return model not in self._tries or now_s >= self._tries[model].next_s

    def note(self, model: str, tokens: int | None, now_s: float) -> int | None:
        """Hear what one measurement found, None where it was disturbed; return what is believed.

        Two agree that are at most one step apart; the larger of them holds.
        """
        before = self._tries.pop(model, _Tries())
        if tokens is not None:
            if tokens >= self._default:
                return tokens
            if before.tokens is not None and max(tokens, before.tokens) <= 2 * min(
                tokens, before.tokens
            ):
                return max(tokens, before.tokens)
        pause_s = FIRST_PAUSE_S * 2**before.times
        self._tries[model] = _Tries(before.times + 1, tokens, now_s + pause_s)
        return None

    def is_over(self, model: str) -> bool:
        """Whether it was measured so often in vain that the default is to hold."""
        return model in self._tries and self._tries[model].times >= MAX_PASSES
