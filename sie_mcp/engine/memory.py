"""The account of device memory: who is resident, who may leave, who must wait.

Bookkeeping only: time comes in as an argument; nothing here loads, waits or touches a device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sie_mcp.engine.eviction import EvictionPolicy, LeastRecentlyUsed
from sie_mcp.errors import ModelTooLarge, OutOfMemory

# A model that took t seconds to load stays for at least this many t while it is being used, so
# that two models in turn are not swapped for every request (evals/LOG.md, entry 2).
TENURE_LOADS = 4.0
MAX_TENURE_S = 5.0
# Coming back from host memory takes milliseconds; what is queued is drained all the same.
MIN_TENURE_S = 0.5
# Unused for this many load times, it may leave before its tenure ends.
IDLE_LOADS = 0.25
MAX_IDLE_S = 0.5
# A caller with one request after another needs this long to ask again.
MIN_IDLE_S = 0.003


class Sized(Protocol):
    """What takes memory."""

    size_bytes: int


SizedT = TypeVar("SizedT", bound=Sized)


@dataclass(slots=True)
class Resident:
    """One model on the device, or on its way there."""

    name: str
    size_bytes: int
    users: int = 0
    last_used_s: float = 0.0
    loaded_at_s: float | None = None
    load_s: float = 0.0
    is_pinned: bool = False
    is_closing: bool = False

    def tenure_ends_s(self) -> float:
        """When it may be asked to leave although it is being used."""
        tenure_s = min(max(TENURE_LOADS * self.load_s, MIN_TENURE_S), MAX_TENURE_S)
        return (self.loaded_at_s or 0.0) + tenure_s

    def may_leave_s(self) -> float:
        """When it may leave if nobody uses it any more."""
        idle_s = min(max(IDLE_LOADS * self.load_s, MIN_IDLE_S), MAX_IDLE_S)
        return min(self.last_used_s + idle_s, self.tenure_ends_s())


@dataclass(frozen=True, slots=True)
class Room:
    """An answer to a wish for room.

    Attributes:
        victims: Models to evict; the room is reserved once they are gone.
        wait_s: None when `victims` suffice; else look again after this long or on any release.
    """

    victims: tuple[str, ...] = ()
    wait_s: float | None = None


class Ledger:
    """Residents by bytes, in the order of a policy.

    Args:
        budget_bytes: For all models of the device.
        reserved_bytes: Kept free for the workspace of one full batch; part of the budget.
        policy: Who leaves first; the least recently used by default.
        has_work: Whether sequences of a model wait for the device; it is asked to leave last.
    """

    def __init__(
        self,
        budget_bytes: int,
        reserved_bytes: int = 0,
        *,
        policy: EvictionPolicy | None = None,
        has_work: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.budget_bytes = budget_bytes
        self.reserved_bytes = reserved_bytes
        self._policy = policy or LeastRecentlyUsed()
        self._has_work = has_work
        self._residents: dict[str, Resident] = {}
        self._pins: set[str] = set()

    @property
    def resident_bytes(self) -> int:
        """Bytes of all models, those being loaded included."""
        return sum(one.size_bytes for one in self._residents.values())

    @property
    def free_bytes(self) -> int:
        """What is left for more models."""
        return self.budget_bytes - self.reserved_bytes - self.resident_bytes

    @property
    def pinned_bytes(self) -> int:
        """Bytes that no eviction can free."""
        return sum(one.size_bytes for one in self._residents.values() if one.is_pinned)

    def get(self, name: str) -> Resident | None:
        """Return a resident's account."""
        return self._residents.get(name)

    def residents(self) -> list[Resident]:
        """Return all, who leaves first first."""
        return sorted(
            self._residents.values(), key=lambda one: (self._policy.worth(one), one.last_used_s)
        )

    def find_room(self, size_bytes: int, now_s: float) -> Room:
        """Say whom to evict for a model of this size; evicts nobody itself.

        Models in use past their tenure are marked closing: they take no new users and leave when
        the present ones are done.

        Raises:
            ModelTooLarge: it exceeds the budget even alone.
            OutOfMemory: pinned models leave too little.
        """
        available = self.budget_bytes - self.reserved_bytes
        if size_bytes > available:
            raise ModelTooLarge(
                f"the model needs {size_bytes:,} bytes, the budget is {available:,}; "
                "raise memory_budget or choose a smaller model"
            )
        if size_bytes > available - self.pinned_bytes:
            pinned = ", ".join(sorted(one.name for one in self.residents() if one.is_pinned))
            raise OutOfMemory(
                f"the model needs {size_bytes:,} bytes; pinned models leave "
                f"{available - self.pinned_bytes:,}; unpin one of: {pinned}"
            )
        missing = size_bytes - self.free_bytes
        idle = [one for one in self.residents() if self._is_idle(one)]
        ready = [one for one in idle if one.is_closing or one.may_leave_s() <= now_s]
        victims = enough(ready, missing)
        if victims is not None:
            return Room(victims=tuple(one.name for one in victims))
        self._close(missing, now_s)
        return Room(wait_s=self._next_change_s(now_s))

    def evicted_bytes(self, size_bytes: int) -> int | None:
        """Return what would have to leave for this size; None if idle models are not enough."""
        idle = [one for one in self.residents() if self._is_idle(one)]
        victims = enough(idle, size_bytes - self.free_bytes)
        return None if victims is None else sum(one.size_bytes for one in victims)

    def unused_for(self, seconds: float, now_s: float) -> list[str]:
        """Return idle models that nobody has used for so long."""
        return [
            one.name
            for one in self.residents()
            if self._is_idle(one) and now_s - one.last_used_s >= seconds
        ]

    def pin(self, name: str, *, is_pinned: bool) -> None:
        """Keep a model, now or once it is loaded, from leaving; or let it leave again."""
        (self._pins.add if is_pinned else self._pins.discard)(name)
        if resident := self._residents.get(name):
            resident.is_pinned = is_pinned

    def is_pinned(self, name: str) -> bool:
        """Whether a model is to stay, resident or not."""
        return name in self._pins

    def admit(self, name: str, size_bytes: int, now_s: float) -> None:
        """Reserve room for a model that is about to load. Call after evicting the victims."""
        assert name not in self._residents
        assert size_bytes <= self.free_bytes
        self._residents[name] = Resident(
            name, size_bytes, users=1, last_used_s=now_s, is_pinned=name in self._pins
        )

    def settle(self, name: str, size_bytes: int, load_s: float, now_s: float) -> None:
        """Correct the size after the load, and give the loader's own use back."""
        resident = self._residents[name]
        resident.size_bytes = size_bytes
        resident.load_s = load_s
        resident.loaded_at_s = resident.last_used_s = now_s
        resident.users -= 1
        self._policy.used(resident)

    def use(self, name: str, now_s: float) -> None:
        """Count one more user: the model stays until `release`."""
        resident = self._residents[name]
        resident.users += 1
        resident.last_used_s = now_s
        self._policy.used(resident)

    def release(self, name: str, now_s: float) -> None:
        """Count one user less."""
        resident = self._residents[name]
        assert resident.users > 0
        resident.users -= 1
        resident.last_used_s = now_s

    def keep(self, name: str) -> None:
        """Keep a model until `let_go`, which is no use of it: it stays as old as it is."""
        self._residents[name].users += 1

    def let_go(self, name: str) -> None:
        """End what `keep` began."""
        assert self._residents[name].users > 0
        self._residents[name].users -= 1

    def remove(self, name: str, *, is_victim: bool = False) -> None:
        """Forget a model that failed to load, was unloaded, or made room for another one."""
        self._policy.left(self._residents.pop(name), is_victim=is_victim)

    def reopen(self) -> None:
        """Let closing models stay: whoever waited for room has it."""
        for one in self._residents.values():
            one.is_closing = False

    def first_idle(self) -> str | None:
        """Return who leaves first when the device itself is out of memory, tenure or not."""
        return next((one.name for one in self.residents() if self._is_idle(one)), None)

    def _is_idle(self, resident: Resident) -> bool:
        return resident.users == 0 and not resident.is_pinned and resident.loaded_at_s is not None

    def _close(self, missing: int, now_s: float) -> None:
        """Mark models whose tenure is over until those that are leaving make enough room.

        Those with work in the queue are marked last: it would have to run first.
        """
        leaving = sum(
            one.size_bytes
            for one in self._residents.values()
            if one.is_closing or self._is_idle(one)
        )
        for one in sorted(self.residents(), key=lambda one: self._has_work(one.name)):
            if leaving >= missing:
                return
            is_candidate = one.loaded_at_s is not None and not (one.is_pinned or one.is_closing)
            if is_candidate and one.users and one.tenure_ends_s() <= now_s:
                one.is_closing = True
                leaving += one.size_bytes

    def _next_change_s(self, now_s: float) -> float:
        """Seconds until time alone may change the answer."""
        times = [
            moment - now_s
            for one in self._residents.values()
            if one.loaded_at_s is not None
            for moment in (one.may_leave_s(), one.tenure_ends_s())
            if moment > now_s
        ]
        return min(times, default=1.0)


def enough(candidates: list[SizedT], missing: int) -> list[SizedT] | None:
    """Take the first until they suffice, then give back those that were not needed after all."""
    taken: list[SizedT] = []
    total = 0
    for one in candidates:
        if total >= missing:
            break
        taken.append(one)
        total += one.size_bytes
    if total < missing:
        return None
    for one in list(taken):
        if total - one.size_bytes >= missing:
            taken.remove(one)
            total -= one.size_bytes
    return taken
