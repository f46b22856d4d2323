"""What models saw of texts: data only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sie_mcp import wire
from sie_mcp.tools.categories.pictures import Pictured
from sie_mcp.tools.readings import View


@dataclass(frozen=True, slots=True)
class Seen:
    """Texts as every model sees them, and those that one of them could not read.

    `heads` are what each text says the thing is; its words count. `order`: of texts that a reranker
    saw the likeliest nodes, best first.
    """

    texts: Sequence[str]
    heads: Sequence[str]
    views: list[View]
    failed: dict[int, wire.ItemError]
    pictured: Pictured = field(default_factory=Pictured)
    order: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def places(self) -> list[int]:
        """The places of texts that every model could read."""
        return [place for place in range(len(self.texts)) if place not in self.failed]
