"""How much work models do between a load and their eviction: whether loading was worth it.

Bookkeeping only: time comes in as an argument. A *stay* is a model's time on the device.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from sie_mcp import metrics

WINDOW_S = 60.0
# Names come from callers: the longest unheard-of is forgotten beyond this many.
MAX_NAMES = 1_024
# Loads that a minute's figure can count.
MAX_LOADS = 4_096


@dataclass(slots=True)
class Stay:
    """What a model did since its last load, or did in one stay."""

    load_s: float = 0.0
    requests: int = 0
    tokens: int = 0
    device_s: float = 0.0

    @property
    def was_short(self) -> bool:
        """Whether loading it took longer than the work that it was loaded for."""
        return self.device_s < self.load_s


@dataclass(slots=True)
class History:
    """A model's stays: the present one, and the sum of those before."""

    loads: int = 0
    evictions: int = 0
    short_stays: int = 0
    present: Stay | None = None
    past: Stay = field(default_factory=Stay)


@dataclass(frozen=True, slots=True)
class Figures:
    """Thrash of a device, or of a model on it.

    Attributes:
        loads_per_minute: Loads in the last minute.
        loads: Since the start, like all that follow.
        evictions: Models that made room for others.
        short_stays: Evictions of models that had worked for less time than their load took.
        load_s: Seconds spent loading.
        device_s: Seconds that requests spent on the device.
        requests_per_load: Useful work that a load bought.
        tokens_per_load: The same in tokens.
    """

    loads_per_minute: float
    loads: int
    evictions: int
    short_stays: int
    load_s: float
    device_s: float
    requests_per_load: float
    tokens_per_load: float


class Thrash:
    """The stays of one device's models."""

    def __init__(self) -> None:
        self._histories: OrderedDict[str, History] = OrderedDict()
        self._loads: deque[tuple[float, str]] = deque(maxlen=MAX_LOADS)

    def loaded(self, name: str, load_s: float, now_s: float) -> None:
        """Begin a stay."""
        history = self._of(name)
        history.loads += 1
        history.present = Stay(load_s)
        self._loads.append((now_s, name))

    def worked(self, name: str, *, tokens: int, device_s: float) -> None:
        """Count a request that a model has answered."""
        stay = self._of(name).present
        if stay is not None:
            stay.requests += 1
            stay.tokens += tokens
            stay.device_s += device_s

    def left(self, name: str, *, is_victim: bool) -> Stay | None:
        """End a stay and return it; only making room for another model counts as an eviction."""
        history = self._of(name)
        stay, history.present = history.present, None
        if stay is None:
            return None
        history.evictions += is_victim
        history.short_stays += is_victim and stay.was_short
        history.past = _sum(history.past, stay)
        return stay

    def figures(self, now_s: float, name: str | None = None) -> Figures:
        """Return the figures of a model, or of all together."""
        while self._loads and self._loads[0][0] <= now_s - WINDOW_S:
            self._loads.popleft()
        recent = sum(name is None or one == name for _, one in self._loads)
        chosen = list(self._histories.values()) if name is None else [self._find(name)]
        total = Stay()
        for history in chosen:
            total = _sum(_sum(total, history.past), history.present or Stay())
        loads = sum(one.loads for one in chosen)
        return Figures(
            loads_per_minute=recent * 60.0 / WINDOW_S,
            loads=loads,
            evictions=sum(one.evictions for one in chosen),
            short_stays=sum(one.short_stays for one in chosen),
            load_s=total.load_s,
            device_s=total.device_s,
            requests_per_load=total.requests / max(loads, 1),
            tokens_per_load=total.tokens / max(loads, 1),
        )

    def _find(self, name: str) -> History:
        return self._histories.get(name) or History()

    def _of(self, name: str) -> History:
        history = self._histories.setdefault(name, History())
        self._histories.move_to_end(name)
        while len(self._histories) > MAX_NAMES:
            self._histories.popitem(last=False)
        return history


def report_eviction(stay: Stay) -> None:
    """Count what an evicted model did in its stay."""
    metrics.MODEL_EVICTIONS.inc()
    metrics.STAY_TOKENS.observe(stay.tokens)
    metrics.STAY_REQUESTS.observe(stay.requests)
    if stay.was_short:
        metrics.MODEL_SHORT_STAYS.inc()


def _sum(one: Stay, other: Stay) -> Stay:
    return Stay(
        one.load_s + other.load_s,
        one.requests + other.requests,
        one.tokens + other.tokens,
        one.device_s + other.device_s,
    )
