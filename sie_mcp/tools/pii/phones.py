"""Phone numbers that can be dialled: country code and length as the numbering plans have them."""

import phonenumbers

from sie_mcp.tools.pii.spans import PiiSpan


def find_phones(text: str) -> list[PiiSpan]:
    """Return numbers written with their country's code."""
    return [
        PiiSpan(match.start, match.end, "PHONE")
        for match in phonenumbers.PhoneNumberMatcher(text, None)
    ]
