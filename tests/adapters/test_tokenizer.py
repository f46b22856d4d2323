"""The shared tokenizer: limits, truncation as the library does it, and many threads at once."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from sie_mcp.adapters.pair_frame import longest_first
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import ModelLoadFailed
from tests.tiny import wordpiece

NUM_THREADS = 16
NUM_CALLS = 200
TEXTS = ["hello world", "alpha beta gamma", "the " * 40, "é", "who wrote it? " * 9]


@pytest.fixture
def tokenizer() -> TextTokenizer:
    return TextTokenizer(wordpiece())


def _library(max_length: int | None) -> Tokenizer:
    own = wordpiece()
    if max_length is not None:
        own.enable_truncation(max_length)
    return own


@pytest.mark.parametrize("max_length", [None, 2, 3, 8, 30])
def test_a_text_is_cut_as_the_library_cuts_it(
    tokenizer: TextTokenizer, max_length: int | None
) -> None:
    library = _library(max_length)
    for text, own in zip(TEXTS, tokenizer.encode(TEXTS, max_length), strict=True):
        assert own.ids.tolist() == library.encode(text).ids
        assert own.truncated == (len(wordpiece().encode(text).ids) > (max_length or 10_000))


@pytest.mark.parametrize("max_length", [None, 3, 4, 5, 10, 11, 25])
@pytest.mark.parametrize("first", TEXTS)
def test_a_pair_is_cut_as_the_library_cuts_it(
    tokenizer: TextTokenizer, max_length: int | None, first: str
) -> None:
    library = _library(max_length)
    for second, own in zip(TEXTS, tokenizer.encode_pairs(first, TEXTS, max_length), strict=True):
        expected = library.encode(first, second)
        assert own.ids.tolist() == expected.ids
        types = [0] * len(expected.ids) if own.type_ids is None else own.type_ids.tolist()
        assert types == expected.type_ids
        whole = wordpiece().encode(first, second)
        assert own.truncated == (len(whole.ids) > len(expected.ids))
        assert own.num_cut == len(whole.ids) - len(expected.ids)


def test_longest_first_never_leaves_more_than_there_is_room_for() -> None:
    for first in range(12):
        for second in range(12):
            for room in range(26):
                kept = longest_first(first, second, room)
                if kept == (None, None):
                    assert first + second <= room
                else:
                    assert kept[0] is not None
                    assert kept[1] is not None
                    assert kept[0] + kept[1] == room
                    assert kept[0] <= first
                    assert kept[1] <= second


def test_many_threads_with_different_limits_get_what_one_thread_gets(
    tokenizer: TextTokenizer,
) -> None:
    jobs = [_job(tokenizer, number) for number in range(40)]
    expected = [job() for job in jobs]
    start = threading.Barrier(NUM_THREADS)
    failures: list[str] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).integers(0, len(jobs), NUM_CALLS)
        start.wait(30)
        failures.extend(
            f"seed={seed} job={number}" for number in order if jobs[number]() != expected[number]
        )

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []


def _job(tokenizer: TextTokenizer, number: int) -> Callable[[], list[list[int]]]:
    """Return one call of many kinds: single or pair, with a limit or none."""
    limit = (None, 4, 8, 16, 64)[number % 5]
    text = TEXTS[number // 5 % len(TEXTS)]
    if number % 2:
        return lambda: [one.ids.tolist() for one in tokenizer.encode([text, *TEXTS], limit)]
    return lambda: [one.ids.tolist() for one in tokenizer.encode_pairs(text, TEXTS, limit)]


def test_a_tokenizer_file_s_own_truncation_and_padding_are_off(tmp_path: Path) -> None:
    own = wordpiece()
    own.enable_truncation(4)
    own.enable_padding(length=64)
    own.save(str(tmp_path / "tokenizer.json"))
    tokens = TextTokenizer.from_folder(tmp_path).encode(["the " * 10], None)[0]
    assert len(tokens.ids) == 12
    assert not tokens.truncated


def test_texts_are_lowered_where_the_checkpoint_asks_for_it() -> None:
    cased = wordpiece(lowercase=False)
    plain, lowered = TextTokenizer(cased), TextTokenizer(cased, lower_case=True)
    assert (
        plain.encode(["HELLO"], None)[0].ids.tolist()
        != lowered.encode(["hello"], None)[0].ids.tolist()
    )
    assert (
        lowered.encode(["HELLO"], None)[0].ids.tolist()
        == plain.encode(["hello"], None)[0].ids.tolist()
    )


def test_markers_of_the_vocabulary_stay_whole(tmp_path: Path) -> None:
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    own = TextTokenizer.from_folder(tmp_path, markers=["[unused0]", "[not there]"])
    ids = own.encode(["[unused0] hello"], None)[0].ids
    assert ids.tolist() == [own.vocabulary[one] for one in ("[CLS]", "[unused0]", "hello", "[SEP]")]


def test_offsets_are_code_points_of_the_caller_s_own_string(tokenizer: TextTokenizer) -> None:
    text = "👩‍👩‍👧 Élan İstanbul ea"
    tokens = tokenizer.encode([text], None)[0]
    pieces = [text[start:end] for start, end in tokens.offsets[1:-1]]
    assert "".join(pieces) == text.replace(" ", "")


@pytest.mark.parametrize("content", [None, "{", '{"model": 3}'])
def test_a_missing_or_broken_file_is_an_error_that_names_it(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json cannot be read"):
        TextTokenizer.from_folder(tmp_path)


def test_words_of_many_texts_have_the_tokens_that_the_library_gives_each_text() -> None:
    texts = [
        ["hello", "world", "hello"],
        [],
        ["é", "alphabet", "hello"],
        [str(n) for n in range(700)],
    ]
    found = TextTokenizer(wordpiece()).read_words(texts)
    library = wordpiece().encode_batch(texts, is_pretokenized=True, add_special_tokens=False)
    for words, own, expected in zip(texts, found, library, strict=True):
        assert own.ids.tolist() == expected.ids
        assert own.sizes.tolist() == [expected.word_ids.count(place) for place in range(len(words))]
