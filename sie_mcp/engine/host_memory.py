"""The account of host memory: which models have a copy of their weights there, and in which pages.

Bookkeeping only: pages are numbers, time comes in as an argument; nothing here copies or allocates.
"""

from dataclasses import dataclass

from sie_mcp.engine.memory import enough


@dataclass(slots=True)
class HostCopy:
    """The weights of one model in host memory, or on their way there."""

    name: str
    pages: tuple[int, ...]
    size_bytes: int
    last_used_s: float
    users: int = 0
    is_whole: bool = False
    is_on_device: bool = True


class HostLedger:
    """Copies by pages of one size.

    Whose copy leaves first: of models that are on the device too, since losing it costs a copy
    back when they leave, a tenth of what reading files costs (12.5 ms against 129 ms for 670 MB on
    an H100); then the least recently used.

    Args:
        budget_bytes: For all copies; what is over whole pages is not used.
        page_bytes: Of one page; a model has its pages to itself.
    """

    def __init__(self, budget_bytes: int, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.budget_bytes = budget_bytes - budget_bytes % page_bytes
        # The last is taken first: a page that was used before is allocated already.
        self._free = list(range(budget_bytes // page_bytes))[::-1]
        self._copies: dict[str, HostCopy] = {}

    @property
    def used_bytes(self) -> int:
        """Bytes of all pages that hold copies."""
        return sum(one.size_bytes for one in self._copies.values())

    @property
    def free_bytes(self) -> int:
        """Bytes of all pages that hold none."""
        return len(self._free) * self.page_bytes

    def get(self, name: str) -> HostCopy | None:
        """Return a model's copy."""
        return self._copies.get(name)

    def copies(self) -> list[HostCopy]:
        """Return all, those first that leave first."""
        return sorted(
            self._copies.values(), key=lambda one: (not one.is_on_device, one.last_used_s)
        )

    def find_room(self, size_bytes: int) -> tuple[str, ...] | None:
        """Say whose copies must go for weights of this size; None: it cannot be had."""
        missing = self._num_pages(size_bytes) * self.page_bytes - self.free_bytes
        victims = enough([one for one in self.copies() if not one.users], missing)
        return None if victims is None else tuple(one.name for one in victims)

    def admit(self, name: str, size_bytes: int, now_s: float) -> HostCopy:
        """Reserve pages for a copy that is about to be made. Call once there is room."""
        assert name not in self._copies
        num_pages = self._num_pages(size_bytes)
        assert num_pages <= len(self._free)
        pages = tuple(self._free.pop() for _ in range(num_pages))
        copy = HostCopy(name, pages, num_pages * self.page_bytes, now_s, users=1)
        self._copies[name] = copy
        return copy

    def settle(self, name: str) -> None:
        """Count a copy as made, and give its maker's use back."""
        self._copies[name].is_whole = True
        self.release(name)

    def use(self, name: str) -> HostCopy:
        """Count one more reader: the copy stays until `release`."""
        copy = self._copies[name]
        assert copy.is_whole
        copy.users += 1
        return copy

    def release(self, name: str) -> None:
        """Count one reader less."""
        copy = self._copies[name]
        assert copy.users > 0
        copy.users -= 1

    def move(self, name: str, now_s: float, *, is_on_device: bool) -> None:
        """Say that the model came to the device, or left it."""
        copy = self._copies[name]
        copy.is_on_device = is_on_device
        copy.last_used_s = now_s

    def remove(self, name: str) -> None:
        """Forget a copy; its pages are free."""
        copy = self._copies.pop(name)
        self._free.extend(reversed(copy.pages))

    def _num_pages(self, size_bytes: int) -> int:
        return -(-size_bytes // self.page_bytes)
