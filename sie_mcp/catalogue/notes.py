"""What a taxonomy says of a category beside its name: synonyms, description, examples. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sie_mcp.errors import InvalidInput

MAX_SYNONYMS = MAX_EXAMPLES = 20
MAX_NOTE_CHARS = 2_000
_BETWEEN = re.compile(r"\s*[|;]\s*")
# A text may hold semicolons.
_BETWEEN_EXAMPLES = re.compile(r"\s*\|\s*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Notes:
    """Other names of a category, what belongs into it, and texts that do."""

    synonyms: tuple[str, ...] = ()
    description: str = ""
    examples: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All that says what the category is."""
        return (*self.synonyms, self.description) if self.description else self.synonyms


NOTHING = Notes()


def make_notes(
    synonyms: str | Sequence[str],
    description: str,
    where: str,
    examples: str | Sequence[str] = (),
) -> Notes:
    """Take synonyms, in one text between "|" or ";" or one by one, a description and examples.

    Examples in one text stand between "|".

    Raises:
        InvalidInput: too many, too long, or no valid Unicode; `where` says of which category.
    """
    names, given = _listed(synonyms, _BETWEEN), _listed(examples, _BETWEEN_EXAMPLES)
    if len(names) > MAX_SYNONYMS:
        raise InvalidInput(f"{where}: {len(names)} synonyms; the limit is {MAX_SYNONYMS}")
    if len(given) > MAX_EXAMPLES:
        raise InvalidInput(f"{where}: {len(given)} examples; the limit is {MAX_EXAMPLES}")
    notes = Notes(names, " ".join(description.split()), given)
    for text in (*notes.texts, *notes.examples):
        if len(text) > MAX_NOTE_CHARS:
            raise InvalidInput(
                f"{where}: {text[:40]!r}… has {len(text):,} characters; a synonym, description or "
                f"example has at most {MAX_NOTE_CHARS:,}"
            )
        if _SURROGATE.search(text):
            raise InvalidInput(f"{where} holds a lone surrogate; send valid Unicode")
    return notes if names or notes.description or given else NOTHING


def _listed(given: str | Sequence[str], between: re.Pattern[str]) -> tuple[str, ...]:
    """Return different texts, without blanks at their ends and between words."""
    listed = between.split(given) if isinstance(given, str) else given
    return tuple(dict.fromkeys(text for one in listed if (text := " ".join(one.split()))))
