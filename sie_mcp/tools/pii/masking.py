"""Masks in place of personal data: [PERSON_1], the same for the same value within a call."""

import re
from collections.abc import Iterable, Sequence

from sie_mcp.tools.pii.spans import PiiSpan

_MASK = re.compile(r"\[([A-Z][A-Z0-9_]*)_([0-9]{1,9})\]")
_NO_LETTER = re.compile(r"[\W_]+")


class Masks:
    """Hands out masks. Texts that already hold masks keep them: new numbers start after theirs."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._masks: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}
        for text in texts:
            for match in _MASK.finditer(text):
                number = int(match[2])
                self._last[match[1]] = max(self._last.get(match[1], 0), number)

    def mask(self, kind: str, value: str) -> str:
        """Return the mask of a value; case, spaces and punctuation make no other value."""
        key = (kind, _NO_LETTER.sub("", value.casefold()) or value)
        if key not in self._masks:
            self._last[kind] = self._last.get(kind, 0) + 1
            self._masks[key] = f"[{kind}_{self._last[kind]}]"
        return self._masks[key]

    def redact(self, text: str, spans: Sequence[PiiSpan]) -> str:
        """Return the text with a mask in place of each span; spans are in order."""
        parts: list[str] = []
        end = 0
        for span in spans:
            assert end <= span.start < span.end <= len(text), "spans overlap, or leave the text"
            parts += [text[end : span.start], self.mask(span.kind, text[span.start : span.end])]
            end = span.end
        return "".join([*parts, text[end:]])
