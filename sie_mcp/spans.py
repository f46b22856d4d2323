"""What tracing needs of whoever makes spans. Shapes alone."""

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

Value = str | int | float | bool
Kind = Literal["internal", "client", "server"]


class Tracer(Protocol):
    """What makes spans."""

    def span(
        self,
        name: str,
        kind: Kind,
        parent: Mapping[str, str] | None,
        links: Sequence[object],
        attributes: Mapping[str, Value],
    ) -> AbstractContextManager[object]:
        """Return a span that lasts as long as its block."""

    def past(
        self, name: str, start_s: float, end_s: float, attributes: Mapping[str, Value]
    ) -> None:
        """Add a span of what is over, by the monotonic clock."""

    def annotate(self, attributes: Mapping[str, Value]) -> None:
        """Add to the span that lasts."""

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Write where a span belongs into headers."""

    def attached(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Return a block whose spans belong where headers say."""

    def here(self) -> object | None:
        """Return what another span can be linked to."""
