"""What a taxonomy says of a category beside its name: synonyms, and a description. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sie_mcp.errors import InvalidInput

MAX_SYNONYMS = 20
MAX_NOTE_CHARS = 2_000
_BETWEEN = re.compile(r"\s*[|;]\s*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Notes:
    """Other names of a category, and what belongs into it."""

    synonyms: tuple[str, ...] = ()
    description: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that there is to read."""
        return (*self.synonyms, self.description) if self.description else self.synonyms


NOTHING = Notes()


def make_notes(synonyms: str | Sequence[str], description: str, where: str) -> Notes:
    """Take synonyms, in one text between "|" or ";" or one by one, and a description.

    Raises:
        InvalidInput: too many, too long, or no valid Unicode; `where` says of which category.
    """
    listed = _BETWEEN.split(synonyms) if isinstance(synonyms, str) else synonyms
    names = tuple(dict.fromkeys(name for one in listed if (name := " ".join(one.split()))))
    if len(names) > MAX_SYNONYMS:
        raise InvalidInput(f"{where}: {len(names)} synonyms; the limit is {MAX_SYNONYMS}")
    notes = Notes(names, " ".join(description.split()))
    for text in notes.texts:
        if len(text) > MAX_NOTE_CHARS:
            raise InvalidInput(
                f"{where}: {text[:40]!r}… has {len(text):,} characters; a synonym or description "
                f"has at most {MAX_NOTE_CHARS:,}"
            )
        if _SURROGATE.search(text):
            raise InvalidInput(f"{where} holds a lone surrogate; send valid Unicode")
    return notes if names or notes.description else NOTHING
