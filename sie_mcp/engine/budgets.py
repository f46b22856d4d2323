"""What a batch of each model may hold after memory ran out: learned, and forgotten again.

Bookkeeping only: no clock, no thread, no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SMALLEST_TOKENS = 64
# So many batches that nearly fill a budget show that more may fit. Each time this proves wrong the
# number doubles, so that a device that stays too small is asked ever less often.
FIRST_PATIENCE = 16
MAX_PATIENCE = 1024
# Names come from callers: what was learned longest ago is forgotten beyond this many.
MAX_MODELS = 256


@dataclass(slots=True)
class _Lesson:
    failed_tokens: int
    patience: int = FIRST_PATIENCE
    num_good: int = 0


class Budgets:
    """Budgets in tokens, each learned from its own model's batches alone."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._lessons: dict[str, _Lesson] = {}

    @property
    def tokens(self) -> Mapping[str, int]:
        """The budgets that are in force, by model; a view."""
        return MappingProxyType(self._tokens)

    def did_not_fit(self, model: str, num_tokens: int) -> int:
        """Learn from a batch that ran out of memory; return the new budget."""
        known = self._tokens.get(model)
        if known is not None and num_tokens > known:
            # On its way before that was learned: what it says is known.
            return known
        budget = max(num_tokens // 2, SMALLEST_TOKENS)
        lesson = self._lessons.pop(model, None)
        if lesson is None:
            lesson = _Lesson(num_tokens)
        elif lesson.num_good or model not in self._tokens:
            # The halves of one batch are one lesson; this is another.
            lesson.patience = min(lesson.patience * 2, MAX_PATIENCE)
            lesson.failed_tokens = num_tokens
        lesson.num_good = 0
        self._lessons[model] = lesson
        self._tokens[model] = budget
        while len(self._lessons) > MAX_MODELS:
            oldest = next(iter(self._lessons))
            del self._lessons[oldest]
            self._tokens.pop(oldest, None)
        return budget

    def fitted(self, model: str, num_tokens: int) -> None:
        """Learn from a batch that ran: after many, twice as much is tried again."""
        budget = self._tokens.get(model)
        if budget is None or num_tokens * 2 < budget:
            return
        lesson = self._lessons[model]
        lesson.num_good += 1
        if lesson.num_good < lesson.patience:
            return
        lesson.num_good = 0
        if budget * 2 >= lesson.failed_tokens:
            del self._tokens[model]
        else:
            self._tokens[model] = budget * 2

    def memory_came_free(self) -> None:
        """Let every model try more with its next good batch, whatever its patience."""
        for lesson in self._lessons.values():
            lesson.num_good = max(lesson.num_good, lesson.patience - 1)
