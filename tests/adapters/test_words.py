"""Words of any script: spans of the caller's own string."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sie_mcp.adapters.words import WORD, split_texts, split_words


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Ann met Bob.",
        "",
        "  \tCarl\n",
        "state-of-the-art, snake_case; e-mail: a@b.c (4.5 %)",
        "İstanbul 👩‍👩‍👧 Dora",
        "Zoë Müller-Lüdenscheidt à Besançon",
        "Привет, мир-мир",
        "한국어 문장입니다",
    ],
)
def test_texts_with_spaces_are_split_as_the_reference_does(text: str) -> None:
    assert split_words(text) == [match.span() for match in WORD.finditer(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("张伟在北京工作。", list("张伟在北京工作。")),
        ("用iPhone15拍照", ["用", "iPhone15", "拍", "照"]),
        ("スミスさん", list("スミスさん")),
        ("か\u3099く", ["か\u3099", "く"]),
        ("ชื่อ สมชาย", ["ชื่", "อ", "ส", "ม", "ช", "า", "ย"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("hello 世界", ["hello", "世", "界"]),
    ],
)
def test_scripts_without_spaces_have_a_word_a_letter(text: str, expected: list[str]) -> None:
    assert _words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Jose\u0301-Maria e\u0301 Eve", ["Jose\u0301-Maria", "e\u0301", "Eve"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("\u0301a", ["\u0301", "a"]),
    ],
)
def test_marks_stay_with_their_letter(text: str, expected: list[str]) -> None:
    assert _words(text) == expected


def test_another_pattern_may_say_what_a_word_is() -> None:
    whole = re.compile(r"https?://\S+|\w+|\S")
    assert split_words("see https://a.b/c!", whole) == [(0, 3), (4, 18)]


@given(st.text(max_size=40))
def test_words_cover_everything_but_space_once_and_in_order(text: str) -> None:
    spans = split_words(text)
    covered = [place for start, end in spans for place in range(start, end)]
    assert covered == sorted(set(covered)) and all(start < end for start, end in spans)
    assert {place for place, one in enumerate(text) if not one.isspace()} == set(covered)


TEXTS = st.lists(
    st.text(max_size=12) | st.sampled_from(["a-b\x1cc", "“é” e\u0301", "我 x", "", "\n"])
)


@given(TEXTS)
def test_texts_split_together_have_the_words_of_each_alone(texts: list[str]) -> None:
    for text, found in zip(texts, split_texts(texts), strict=True):
        places = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
        assert places == split_words(text)
        assert found.words == [text[start:end] for start, end in places]
