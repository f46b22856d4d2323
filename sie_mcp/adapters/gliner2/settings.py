"""What of a GLiNER2 checkpoint's config.json changes its numbers."""

from dataclasses import dataclass
from typing import Self

from sie_mcp.adapters.model import Config

# What an encoder's config keeps the checkpoint's own settings under.
SETTINGS = "gliner2"
# Words that are read at once, as the reference's own windows.
MAX_WORDS, OVERLAP = 384, 64
# Most records, or pairs of a relation, in one window: what the count is predicted among.
NUM_COUNTS = 20


@dataclass(frozen=True, slots=True)
class Gliner2Settings:
    """Attributes:
    hidden_size: The encoder's.
    max_width: Most words of a span.
    counting: How queries of the first, second, … record are made of one another.
    """

    hidden_size: int
    max_width: int
    counting: str

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read an encoder's config that holds them."""
        own = config[SETTINGS]
        width = (own.get("span_head") or {}).get("max_width", own.get("max_width") or 8)
        counting = own.get("counting_layer") or "count_lstm"
        return cls(config["hidden_size"], int(width), str(counting))
