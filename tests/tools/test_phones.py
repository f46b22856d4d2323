"""Telephone numbers of many countries are found, and what only looks like one is mostly not."""

import pytest

from sie_mcp.tools.pii.patterns import find_by_pattern
from sie_mcp.tools.pii.phones import find_phones
from tests.tools import phone_cases as cases

# What a reader, too, would have to think about; a miss would be worse.
FALSE_ALARMS = {
    "the phone's sensor takes 4000 3000 pictures",
    "call volume rose to 12 345 678",
    "contact lens 8.60 14.20 -3.25",
}


def found(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_by_pattern(text) if span.kind == "PHONE"]


@pytest.mark.parametrize(("text", "number"), cases.PHONES + cases.HELD_OUT_PHONES)
def test_a_telephone_number_is_found_whole_and_alone(text: str, number: str) -> None:
    assert number in found(text)


@pytest.mark.parametrize("text", cases.OTHERS + cases.HELD_OUT_OTHERS)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert bool(found(text)) == (text in FALSE_ALARMS)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Call 555-0101 or 555-0102, 555-0103", ["555-0101", "555-0102", "555-0103"]),
        ("+44 20 7946 0018 / 020 7946 0019", ["+44 20 7946 0018", "020 7946 0019"]),
        ("Tel: 030 12345678 0171 3920055", ["030 12345678 0171 3920055"]),
        ("Phone in case of emergency 5550123", ["5550123"]),
        ("Client: John, 0171 3920055", ["0171 3920055"]),
        ("phone ٠٥٥ ٥٥٥ ٠١٢٣", ["٠٥٥ ٥٥٥ ٠١٢٣"]),
        ("I have no phone.\nWidth 5550123", []),
        ("Who called? 5550123 of them", []),
        ("file 12345678-1234-1234-1234-123456789012, call it", []),
        ("call 12345678901234567890", []),
        ("GPS +48.858222 +2.294500", []),
        ("grew by +49 12 345 EUR", []),
        ("+12 000 000", []),
    ],
)
def test_numbers_in_a_row_and_words_far_away(text: str, numbers: list[str]) -> None:
    assert found(text) == numbers


@pytest.mark.parametrize("text", ["1 " * 30_000, "phone " * 20_000, "0123 " * 20_000, "+" * 60_000])
@pytest.mark.timeout(60)
def test_long_runs_are_looked_through_quickly(text: str) -> None:
    # The end of the last can have the form of one.
    assert len(find_phones(text)) <= 1
