"""Workers that did not answer stand aside for a while.

A dead one has the fewest requests of all, and would be given every new one.
Bookkeeping only: time comes in as an argument.
"""

from collections.abc import Collection
from dataclasses import dataclass

MAX_AWAY_S = 60.0
# With more than this part away it is not them: the rest could not carry it either.
MAX_AWAY_SHARE = 0.5


@dataclass(slots=True)
class _Record:
    failures: int = 0
    back_s: float = 0.0


class Ejections:
    """Who stands aside until when: 1 s, 2 s, 4 s … of failures without an answer between."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def failed(self, worker: str, now_s: float) -> None:
        """Hear that a worker did not answer. What it failed while it stood aside counts once."""
        record = self._records.setdefault(worker, _Record())
        if now_s < record.back_s:
            return
        record.back_s = now_s + min(2.0**record.failures, MAX_AWAY_S)
        record.failures += 1

    def answered(self, worker: str) -> None:
        """Hear that a worker did."""
        self._records.pop(worker, None)

    def keep(self, workers: Collection[str]) -> None:
        """Forget those that have left."""
        self._records = {name: one for name, one in self._records.items() if name in workers}

    def away(self, workers: Collection[str], now_s: float) -> set[str]:
        """Return who stands aside: of too many only those that failed most."""
        out = [name for name in workers if now_s < self._back_s(name)]
        out.sort(key=lambda name: (-self._records[name].failures, name))
        return set(out[: int(len(workers) * MAX_AWAY_SHARE)])

    def _back_s(self, name: str) -> float:
        record = self._records.get(name)
        return record.back_s if record else 0.0
