"""Personal data whose form proves it: e-mail, IBAN, card and phone numbers, IP addresses.

What has a checksum is checked by it, so that an order number is no card. Offsets are code points.
"""

import importlib.util
import ipaddress
import re
from collections.abc import Callable, Iterator

from sie_mcp.tools.optional import load
from sie_mcp.tools.pii.spans import PiiSpan

_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.!#$%&'*+/=?^`{|}~-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"[a-z]{2,63}(?![\w-])",
    re.IGNORECASE,
)
_IBAN = re.compile(r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?: ?[0-9A-Z]){11,30}(?![0-9A-Za-z])")
_IBAN_LENGTHS = range(15, 35)
_CARD = re.compile(r"(?<![\w.-])[2-6](?:[ -]?[0-9]){12,18}(?![\w-])")
_IPV4 = re.compile(r"(?<![\w.:])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])")
# The longest has 39 signs, 45 with an IPv4 address at its end.
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9a-f]{0,4}:)[0-9a-f:][0-9a-f:.]{1,44}(?![\w:])", re.IGNORECASE
)
# In its own module, because its library is an extra.
_PHONES = "sie_mcp.tools.pii.phones"
PHONE_EXTRA = "sie-mcp[pii]"


def finds_phones() -> bool:
    """Whether the library that knows phone numbers is installed."""
    return importlib.util.find_spec("phonenumbers") is not None


def pattern_kinds() -> list[str]:
    """Return the kinds that patterns find here."""
    return [*_FINDERS, *(["PHONE"] if finds_phones() else [])]


def find_by_pattern(text: str) -> list[PiiSpan]:
    """Return all that patterns find, in order of their start; those of two kinds can overlap."""
    found = [span for finder in _FINDERS.values() for span in finder(text)]
    if finds_phones():
        found += load(_PHONES).find_phones(text)
    return sorted(found, key=lambda span: (span.start, -span.end))


def _emails(text: str) -> Iterator[PiiSpan]:
    for match in _EMAIL.finditer(text):
        local = match[0].partition("@")[0]
        # A quote or bracket before an address is none of it.
        start = match.start() + len(local) - len(local.lstrip("'`{|*/=.!#"))
        if text[start] != "@":
            yield PiiSpan(start, match.end(), "EMAIL")


def _ibans(text: str) -> Iterator[PiiSpan]:
    for match in _IBAN.finditer(text):
        end = _checked_end(match)
        if end is not None:
            yield PiiSpan(match.start(), end, "IBAN")


def _checked_end(match: re.Match[str]) -> int | None:
    """Return where the longest beginning of a match ends that is an IBAN.

    Words in capitals that follow an IBAN match too; between its groups may be spaces.
    """
    whole = match[0]
    spaces = [place for place, one in enumerate(whole) if one == " "]
    for end in (len(whole), *reversed(spaces)):
        compact = whole[:end].replace(" ", "")
        if len(compact) in _IBAN_LENGTHS and _iban_checks(compact):
            return match.start() + end
    return None


def _iban_checks(compact: str) -> bool:
    """Whether the two check digits are right (ISO 13616, modulo 97)."""
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(one, 36)) for one in moved)) % 97 == 1


def _cards(text: str) -> Iterator[PiiSpan]:
    for match in _CARD.finditer(text):
        digits = [int(one) for one in match[0] if one.isdigit()]
        if len(set(digits)) > 1 and _luhn_checks(digits):
            yield PiiSpan(match.start(), match.end(), "CREDIT_CARD")


def _luhn_checks(digits: list[int]) -> bool:
    """Whether the last digit is right (ISO/IEC 7812, Luhn)."""
    doubled = [2 * one - 9 * (one > 4) for one in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def _addresses(text: str) -> Iterator[PiiSpan]:
    candidates = [match for pattern in (_IPV4, _IPV6) for match in pattern.finditer(text)]
    for match in candidates:
        written = match[0].rstrip(".")
        # "a::b" is also how programs write a name in a namespace.
        if any(one.isdigit() for one in written) and _is_address(written):
            yield PiiSpan(match.start(), match.start() + len(written), "IP_ADDRESS")


def _is_address(written: str) -> bool:
    try:
        ipaddress.ip_address(written)
    except ValueError:
        return False
    return True


_FINDERS: dict[str, Callable[[str], Iterator[PiiSpan]]] = {
    "EMAIL": _emails,
    "IBAN": _ibans,
    "CREDIT_CARD": _cards,
    "IP_ADDRESS": _addresses,
}
