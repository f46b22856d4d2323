"""Who calls: a name, what it may do, and how much of it. Data only."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

# Tools, /v1 and everything that reads.
RUN = "models:run"
# Loading, unloading and pinning of models.
CONTROL = "models:control"


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """What one caller may have; None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None

    def or_else(self, others: "CallerLimits") -> "CallerLimits":
        """Return these limits, those of others where there is none."""
        return CallerLimits(
            _first(self.requests_per_minute, others.requests_per_minute),
            _first(self.tokens_per_minute, others.tokens_per_minute),
            _first(self.max_concurrent, others.max_concurrent),
        )


NO_LIMITS = CallerLimits()


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller that was identified.

    Attributes:
        name: Tells it from every other caller; not secret.
        models: Patterns of the names that it may give for a model; None is any.
        tools: Tools that it may call; None is all.
    """

    name: str
    scopes: frozenset[str] = frozenset({RUN, CONTROL})
    limits: CallerLimits = NO_LIMITS
    models: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None

    def may_use(self, model: str) -> bool:
        """Whether it may give this name for a model."""
        return self.models is None or any(fnmatchcase(model, one) for one in self.models)

    def may_call(self, tool: str) -> bool:
        """Whether it may call this tool."""
        return self.tools is None or tool in self.tools


def _first(own: int | None, other: int | None) -> int | None:
    return other if own is None else own
