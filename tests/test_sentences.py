"""Sentence splitting: where a sentence ends, and that no character is lost."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sie_mcp.sentences import MAX_CHARS, split_sentences

CASES = {
    "abbreviations": [
        "Dr. Smith met Prof. X in the U.S. He left.",
        ["Dr. Smith met Prof. X in the U.S.", "He left."],
    ],
    "decimals": ["It costs 5.25 today. Tomorrow more.", ["It costs 5.25 today.", "Tomorrow more."]],
    "versions": [
        "Use 2.1.3 or e.g. a later one. Then go on!",
        ["Use 2.1.3 or e.g. a later one.", "Then go on!"],
    ],
    "quotes": ['He said: "Go. Now." Then he left.', ['He said: "Go. Now."', "Then he left."]],
    "chinese": [
        "中文句子。第二句！第三句？价格是3.5元。",
        ["中文句子。", "第二句！", "第三句？", "价格是3.5元。"],
    ],
    "japanese": ["これは文です。「はい。」次。", ["これは文です。", "「はい。」", "次。"]],
    "numbered list": ["1. First step.\n2. Second step.", ["1. First step.", "2. Second step."]],
    "bullets": ["Buy:\n- milk\n* bread\n• eggs", ["Buy:", "- milk", "* bread", "• eggs"]],
    "table": ["| a | b |\n| c | d |\nText.", ["| a | b |", "| c | d |", "Text."]],
    "heading": ["# A title\nSome text.", ["# A title", "Some text."]],
    "paragraphs": ["No full stop here\n\nNext one", ["No full stop here", "Next one"]],
    "short lines": ["Name: Bob\r\nAge: 5", ["Name: Bob", "Age: 5"]],
    "wrapped prose": [
        "A line of prose that was wrapped by hand at some width\nGoes on here. Next.",
        ["A line of prose that was wrapped by hand at some width\nGoes on here.", "Next."],
    ],
    "blank": [" \n\t ", []],
    "empty": ["", []],
    "no words": ["!!! ???", ["!!! ???"]],
    "emoji": ["Fine 😀. Go!", ["Fine 😀.", "Go!"]],
}


@pytest.mark.parametrize(("text", "sentences"), CASES.values(), ids=CASES)
def test_a_text_is_split_where_a_reader_would(text: str, sentences: list[str]) -> None:
    assert [text[span.start : span.end] for span in split_sentences(text)] == sentences


def test_a_very_long_sentence_is_cut_at_a_comma_or_space() -> None:
    text = "many words, " * 300
    pieces = [text[span.start : span.end] for span in split_sentences(text)]
    assert max(map(len, pieces)) <= MAX_CHARS
    assert all(piece.endswith("words,") for piece in pieces)


def test_a_long_run_without_a_space_is_cut_hard() -> None:
    assert [span.end - span.start for span in split_sentences("x" * 1_500)] == [600, 600, 300]


@given(st.text(alphabet="aB1.。!?\n\r\t -*#|,\u2028😀\"'", max_size=300))
def test_spans_are_in_order_and_hold_every_character_but_space(text: str) -> None:
    spans = split_sentences(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    kept = "".join(text[span.start : span.end] for span in spans)
    assert "".join(kept.split()) == "".join(text.split())
    assert all(text[span.start : span.end].strip() == text[span.start : span.end] for span in spans)
