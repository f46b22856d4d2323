"""Personal data by its form and checksums, and how findings join."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sie_mcp.tools.pii.kinds import kind_of
from sie_mcp.tools.pii.masking import Masks
from sie_mcp.tools.pii.patterns import find_by_pattern
from sie_mcp.tools.pii.spans import PiiSpan, join_spans


def found(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in find_by_pattern(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to ann.o'hara+x@mail.example.co.uk.", [("EMAIL", "ann.o'hara+x@mail.example.co.uk")]),
        ("'bob@example.com', <eve@example.org>", [
            ("EMAIL", "bob@example.com"), ("EMAIL", "eve@example.org"),
        ]),
        ("İ 👩‍👧 bob@example.com", [("EMAIL", "bob@example.com")]),
        ("DE89 3704 0044 0532 0130 00 AND MORE", [("IBAN", "DE89 3704 0044 0532 0130 00")]),
        ("(GB82WEST12345698765432)", [("IBAN", "GB82WEST12345698765432")]),
        ("card 4111 1111 1111 1111, amex 378282246310005", [
            ("CREDIT_CARD", "4111 1111 1111 1111"), ("CREDIT_CARD", "378282246310005"),
        ]),
        ("4111-1111-1111-1111.", [("CREDIT_CARD", "4111-1111-1111-1111")]),
        ("from 192.168.0.255, then 10.0.0.1.", [
            ("IP_ADDRESS", "192.168.0.255"), ("IP_ADDRESS", "10.0.0.1"),
        ]),
        ("[2001:db8::ff00:42:8329] and ::ffff:192.0.2.128", [
            ("IP_ADDRESS", "2001:db8::ff00:42:8329"), ("IP_ADDRESS", "::ffff:192.0.2.128"),
        ]),
        ("call +49 30 123456 or +1 650-253-0000", [
            ("PHONE", "+49 30 123456"), ("PHONE", "+1 650-253-0000"),
        ]),
    ],
)  # fmt: skip
def test_what_has_the_form_is_found_with_its_place(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "DE88 3704 0044 0532 0130 00",  # one digit off
        "order 4111 1111 1111 1112",
        "0000 0000 0000 0000",
        "256.1.1.1 and version 1.2.3.4.5",
        "12:30:45, std::vector, abc::dead, a:b",
        "me@localhost, @example.com, a@b",
        "+1 23",
        "",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("text", ["a" * 60_000, ":" * 60_000, "1 " * 30_000, "a.@" * 20_000])
@pytest.mark.timeout(20)
def test_long_runs_are_looked_through_quickly(text: str) -> None:
    assert found(text) == []


def model(start: int, end: int, kind: str) -> PiiSpan:
    return PiiSpan(start, end, kind, 0.9, by_pattern=False)


VALUES = ("bob@example.com", "4111 1111 1111 1111", "GB82WEST12345698765432")


@given(
    st.lists(st.sampled_from([*VALUES, "İ", "👩‍👩‍👧", "北京", "e\u0301", "the", "9"]), max_size=12),
    st.sampled_from([" ", "\n", " – "]),
)
def test_each_stands_where_it_says_in_any_text(words: list[str], space: str) -> None:
    """Case T55, for data with a form of its own."""
    values = [value for _, value in found(space.join(words))]
    for value in VALUES:
        assert values.count(value) <= words.count(value)
    for value in (VALUES[0], VALUES[2]):
        assert values.count(value) == words.count(value)


def test_parts_of_a_name_or_address_are_one_and_different_people_are_two() -> None:
    text = "Ann Lee, Bob: 5 Elm St, York"
    spans = [
        model(0, 3, "PERSON"), model(4, 7, "PERSON"), model(9, 12, "PERSON"),
        model(14, 15, "ADDRESS"), model(16, 22, "ADDRESS"), model(24, 28, "ADDRESS"),
    ]  # fmt: skip
    joined = join_spans(text, spans)
    assert [text[one.start : one.end] for one in joined] == ["Ann Lee", "Bob", "5 Elm St, York"]


def test_a_region_covers_all_that_was_found_in_it_and_a_checksum_names_it() -> None:
    spans = [model(5, 14, "PHONE"), PiiSpan(0, 12, "CREDIT_CARD"), model(13, 20, "TAX_ID")]
    assert join_spans("1" * 20, spans) == [PiiSpan(0, 20, "CREDIT_CARD")]


def test_the_same_value_has_the_same_mask_and_masks_of_the_text_are_not_given_again() -> None:
    masks = Masks(["[PERSON_4] met Ann"])
    assert masks.mask("PERSON", "Ann") == "[PERSON_5]"
    assert masks.mask("PERSON", "ANN") == "[PERSON_5]"
    assert masks.mask("PERSON", "Bob") == "[PERSON_6]"
    assert masks.mask("PHONE", "+49 30 1") == masks.mask("PHONE", "+49301") == "[PHONE_1]"


def test_names_of_models_become_kinds() -> None:
    names = ["GIVEN_NAME", "private_person", "phone number", "drivers license", "Zip Code"]
    assert [kind_of(one) for one in names] == [
        "PERSON", "PERSON", "PHONE", "DRIVERS_LICENSE", "ADDRESS",
    ]  # fmt: skip
