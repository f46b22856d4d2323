"""How fast models run, as measured: tokens and seconds of their latest batches. Pure."""

# What a batch counts for after another one: about the last ten decide.
DECAY = 0.9
# Names come from callers: those that ran longest ago are forgotten beyond this many.
MAX_MODELS = 256


class Speeds:
    """Decayed sums by model; their quotient is the speed, so that large batches count for more."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def note(self, model: str, tokens: int, seconds: float) -> None:
        """Count a batch that ran."""
        old_tokens, old_seconds = self._sums.pop(model, (0.0, 0.0))
        if len(self._sums) >= MAX_MODELS:
            del self._sums[next(iter(self._sums))]
        self._sums[model] = (DECAY * old_tokens + tokens, DECAY * old_seconds + seconds)

    def seconds(self, tokens: dict[str, int]) -> float | None:
        """Return how long these tokens take; None while nothing has run.

        A model that has not run yet counts as fast as the others together.
        """
        all_tokens = sum(one for one, _ in self._sums.values())
        all_seconds = sum(one for _, one in self._sums.values())
        if not all_tokens:
            return None
        total = 0.0
        for model, count in tokens.items():
            its_tokens, its_seconds = self._sums.get(model, (all_tokens, all_seconds))
            total += count * its_seconds / its_tokens
        return total
