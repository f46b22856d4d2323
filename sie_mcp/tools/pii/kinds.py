"""Kinds of personal data, and what models call them. Knows no text."""

import re
from collections.abc import Iterable, Sequence

from sie_mcp.errors import InvalidInput

# A model's label in capitals -> our kind; any other label is a kind of its own.
_KIND_OF = {
    "GIVEN_NAME": "PERSON",
    "GIVENNAME": "PERSON",
    "FIRST_NAME": "PERSON",
    "LAST_NAME": "PERSON",
    "SURNAME": "PERSON",
    "NAME": "PERSON",
    "PER": "PERSON",
    "PRIVATE_PERSON": "PERSON",
    "BUILDING_NUMBER": "ADDRESS",
    "STREET_NAME": "ADDRESS",
    "STREET": "ADDRESS",
    "SECONDARY_ADDRESS": "ADDRESS",
    "CITY": "ADDRESS",
    "STATE": "ADDRESS",
    "ZIP_CODE": "ADDRESS",
    "ZIPCODE": "ADDRESS",
    "PRIVATE_ADDRESS": "ADDRESS",
    "EMAIL_ADDRESS": "EMAIL",
    "PRIVATE_EMAIL": "EMAIL",
    "PHONE_NUMBER": "PHONE",
    "PRIVATE_PHONE": "PHONE",
    "CREDIT_CARD_NUMBER": "CREDIT_CARD",
    "IP": "IP_ADDRESS",
}
# What a model that takes any label is asked for.
ASKED = (
    "person",
    "email",
    "phone number",
    "address",
    "credit card number",
    "bank account",
    "passport",
    "tax id",
    "government id",
    "drivers license",
)
_NO_LETTER = re.compile(r"[^0-9A-Z]+")


def kind_of(label: str) -> str:
    """Return the kind of a model's label: "PERSON" for "given name"."""
    name = _NO_LETTER.sub("_", label.upper()).strip("_")
    return _KIND_OF.get(name, name)


def check_kinds(kinds: Sequence[str] | None, known: Iterable[str]) -> set[str] | None:
    """Return the kinds that are wanted; None: all, also where the list is empty.

    Raises:
        InvalidInput: one that nothing finds, with those that are found.
    """
    # An empty list looks for everything: that nothing was looked for would read as "none found".
    if not kinds:
        return None
    found = sorted(set(known))
    wanted = {kind_of(kind) for kind in kinds}
    if unknown := sorted(wanted - set(found)):
        raise InvalidInput(f"kinds: nothing finds {unknown[0]}; known: {', '.join(found)}")
    return wanted
