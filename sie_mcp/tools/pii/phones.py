"""Telephone numbers: by their country's plan, by the form they are written in, or by what is said.

A number with its country's code counts if it is as long as one of that country can be; whether it
has been given out is not asked, as those of typing errors and of fiction have not. Without the
code it counts if it is written as nothing else is, or if the nearest word that says what it is
names a telephone. For a tool that masks, a miss is worse than a false alarm.
"""

import bisect
import re
from collections.abc import Iterator

import phonenumbers
from phonenumbers import Leniency

from sie_mcp.tools.pii.phone_words import BEHIND, OTHER, PHONE
from sie_mcp.tools.pii.spans import PiiSpan

# Numbers of E.164 have 15 digits, and several can stand in a row; the shortest of a person have 6.
MIN_DIGITS, MAX_DIGITS = 6, 15
# Of one that no plan has: of those found in the tests' sentences so many are numbers (90 of 93).
UNCHECKED_SCORE = 0.97
# How far before a number a word can say what it is.
LABEL_CHARS = 40
_BETWEEN = r"[ \t\u00a0\u2009\u202f.\-\u2010-\u2013\u2212/()]{0,3}"
# Letters that are written together with a number; those of Chinese and Japanese stand beside it.
_LETTER = r"\dA-Za-z_\u00c0-\u06ff"
# Bounded, for speed.
_RUN = re.compile(
    rf"(?<![{_LETTER}.,$€£¥+])(?P<number>(?:\+|\((?=[\d+]))?\d(?:{_BETWEEN}\d){{5,60}})"
    rf"(?P<extension>[ ]?(?:ext\.?|x|#)[ ]?\d{{1,6}})?(?![{_LETTER}%]|[.,:]\d)"
)
# As nothing else is written: (555) 010-9999, 555-010-9999, (030) 123456, (11) 95555-0123.
_SURE_FORMS = (
    re.compile(r"(?:\+?1[ .-]?)?\([2-9]\d\d\) ?\d{3}[ .-]\d{4}"),
    re.compile(r"(?:1[ .-])?[2-9]\d\d([.-])\d{3}\1\d{4}"),
    re.compile(r"\(0\d{1,5}\)[ /-]{0,3}\d{2,}(?:[ -]\d{2,}){0,3}"),
    re.compile(r"\(\d\d\) ?9?\d{4}-\d{4}"),
)
# Groups after the 0 that is dialled before a number inside of most countries. Articles and files
# are numbered so too, but then a word says it.
_TRUNK_FORMS = (
    re.compile(r"0[1-9]\d{1,3}[ -]\d{2,4}(?:[ -]\d{2,4}){1,3}"),
    re.compile(r"0[1-9](?:[ .]\d\d){4}"),
    re.compile(r"0[1-9]-\d{4}-\d{4}"),
    re.compile(r"0[1-9]\d{1,4}[ /-]\d{6,8}"),
)
# Dates, spans of years, IP addresses, decimals, and round amounts.
_OTHER_FORMS = (
    re.compile(r"(?:19|20)\d\d([./-])\d\d?\1\d\d?"),
    re.compile(r"\d\d?([./-])\d\d?\1(?:19|20)?\d\d"),
    re.compile(r"(?:19|20)\d\d ?[-–/] ?(?:19|20)\d\d"),
    re.compile(r"\d{1,3}(?:\.\d{1,3}){3}"),
    re.compile(r"\d{1,2}\.\d+|\d{4,}\.\d\d"),
    re.compile(r"[1-9]\d{0,2}(?:[ .\u00a0\u202f]\d{3})*[ .\u00a0\u202f]000"),
)
_DEGREES = re.compile(r"\+\d{1,3}\.\d{4,}")
_MONEY_BEFORE = re.compile(r"(?:[$€£¥₹]|\b(?:USD|EUR|GBP|CHF|INR|JPY|Rs\.?))\s?$")
_UNIT_BEHIND = re.compile(
    r"\s?(?:[$€£¥₹%°]|(?:USD|EUR|GBP|CHF|times|pieces|people|visitors|pixels|Einwohner|MiB|GiB|MB|"
    r"GB|kg|km|ms?|seconds)\b)"
)


# What may stand between two numbers of one person.
_AND = re.compile(r"\s{0,2}(?:[,;/|&]|or|and|oder|und|ou|et|o|y|e|или|и)?\s{0,2}", re.IGNORECASE)
# A word on one line says nothing of a number behind other words on the next.
_BREAK = re.compile(r"\n.*\w|[!?。]\s")


def find_phones(text: str) -> list[PiiSpan]:
    """Return telephone numbers, in the order of the text; none overlap."""
    found = {span.start: span for span in _international(text)}
    starts = sorted(found)
    own, end, place = [], -1, 0
    while match := _RUN.search(text, place):
        place = match.end()
        nearest = bisect.bisect_left(starts, place) - 1
        if nearest >= 0 and (known := found[starts[nearest]]).end > match.start():
            # What is written behind it may be another.
            place = end = known.end
        elif _is_number(text, match) and (
            _has_form(text, match) or _is_said(text, match) or _goes_on(text, end, match)
        ):
            own.append(
                PiiSpan(match.start(), match.end(), "PHONE", UNCHECKED_SCORE, by_pattern=False)
            )
            end = match.end()
    return sorted([*found.values(), *own], key=lambda span: span.start)


def _international(text: str) -> Iterator[PiiSpan]:
    """Yield numbers with their country's code."""
    for match in phonenumbers.PhoneNumberMatcher(text, None, leniency=Leniency.POSSIBLE):
        if phonenumbers.is_valid_number(match.number) or _is_possible(text, match):
            yield PiiSpan(match.start, match.end, "PHONE")


def _is_possible(text: str, match: phonenumbers.PhoneNumberMatch) -> bool:
    """Whether it is as long as one that can be dialled from abroad, and is no amount or place."""
    reason = phonenumbers.is_possible_number_with_reason(match.number)
    return (
        reason == phonenumbers.ValidationResult.IS_POSSIBLE
        and not _DEGREES.fullmatch(match.raw_string)
        and not _UNIT_BEHIND.match(text, match.end)
    )


def _is_number(text: str, match: re.Match[str]) -> bool:
    """Whether it can be a telephone number by its length, and is no date, amount or the like."""
    number = match["number"]
    num_digits = sum(map(str.isdigit, number))
    return (
        num_digits >= MIN_DIGITS
        and not re.search(rf"\d{{{MAX_DIGITS + 1}}}", number)
        and not any(form.fullmatch(number) for form in _OTHER_FORMS)
        and not (num_digits == 13 and number.startswith(("978", "979")))
        and not _MONEY_BEFORE.search(text, max(0, match.start() - 5), match.start())
        and not _UNIT_BEHIND.match(text, match.end())
    )


def _has_form(text: str, match: re.Match[str]) -> bool:
    number = match["number"]
    if any(form.fullmatch(number) for form in _SURE_FORMS):
        return True
    is_other = OTHER.search(text, max(0, match.start() - LABEL_CHARS), match.start())
    return not is_other and any(form.fullmatch(number) for form in _TRUNK_FORMS)


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Whether a word before or behind it says that it is one, and none that it is another's."""
    if BEHIND.match(text, match.end()):
        return True
    start = max(0, match.start() - LABEL_CHARS)
    words = list(PHONE.finditer(text, start, match.start()))
    if not words or OTHER.search(text, start, match.start()):
        return False
    return _BREAK.search(text, words[-1].end(), match.start()) is None


def _goes_on(text: str, end: int, match: re.Match[str]) -> bool:
    """Whether it follows one that is, in a row."""
    return end >= 0 and _AND.fullmatch(text, end, match.start()) is not None
