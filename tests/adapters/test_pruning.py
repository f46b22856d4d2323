"""Pruning through the door that the engine uses: files in, spans with offsets out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.pair_frame import pair_frame
from sie_mcp.adapters.windows import make_windows, shares
from sie_mcp.catalogue.entries import Profile
from sie_mcp.errors import InferenceError, InputTooLong, InvalidInput
from tests.parity.checkpoints import make_tokenizer
from tests.parity.pruners import QUERY, entry, request, save_pruner
from tests.parity.run import load, run
from tests.running import encode_request

LIMIT = 158
TEXT = "stone river morning gamma"
STABLEBRIDGE = Profile(threshold=0.6, highlight_threshold=0.9)


@pytest.fixture
def pruner(tmp_path: Path) -> Adapter:
    save_pruner(tmp_path)
    return load(tmp_path)


def _finish(adapter: Adapter, keep: list[float], text: str = TEXT, **asked: Any) -> Any:
    """Return the item that these probabilities of the text's tokens make."""
    made = request([text], **asked)
    prepared = adapter.prepare(made)
    (sequence,) = prepared.sequences
    before = prepared.notes[0].num_before
    whole = np.full(sequence.num_tokens, 0.5, np.float32)
    whole[before : before + len(keep)] = keep
    output: Any = {"keep": whole, "logits": np.float32([[2.0]])}
    return adapter.finish(made, prepared, [output]).items[0]


def _labelled(item: wire.ExtractedItem) -> list[tuple[str, str]]:
    return [(one.label, one.text) for one in item.entities]


def test_neighbouring_tokens_of_one_label_are_one_span(pruner: Adapter) -> None:
    thresholds = {"threshold": 0.6, "highlight_threshold": 0.9}
    item = _finish(pruner, [0.95, 0.7, 0.65, 0.1], **thresholds)
    assert _labelled(item) == [
        ("highlight", "stone"),
        ("kept", "river morning"),
        ("pruned", "gamma"),
    ]
    assert [one.score for one in item.entities] == pytest.approx([0.95, 0.675, 0.1])
    assert all(TEXT[one.start : one.end] == one.text for one in item.entities)
    (relevance,) = item.classifications
    assert (relevance.label, relevance.score) == ("relevance", pytest.approx(0.880797))


def test_without_a_highlight_threshold_nothing_is_highlighted(pruner: Adapter) -> None:
    assert _labelled(_finish(pruner, [1.0, 0.7, 0.4, 0.1])) == [
        ("kept", "stone river"),
        ("pruned", "morning gamma"),
    ]


def test_only_the_kinds_asked_for_come_back(pruner: Adapter) -> None:
    assert _labelled(_finish(pruner, [1.0, 0.7, 0.4, 0.1], labels=["Kept"])) == [
        ("kept", "stone river")
    ]
    with pytest.raises(InvalidInput, match="it knows: highlight, kept, pruned"):
        pruner.prepare(request([TEXT], labels=["PERSON"]))


def test_profiles_are_thresholds_by_name_and_the_caller_s_own_win(tmp_path: Path) -> None:
    save_pruner(tmp_path)
    (tmp_path / "pruning_head.pt").rename(tmp_path / "best.pt")
    profiles = {"default": STABLEBRIDGE, "soft": Profile(threshold=0.3)}
    adapter = load(tmp_path, entry(tmp_path, profiles=profiles))
    keep = [0.95, 0.7, 0.4, 0.1]

    def kinds(**options: Any) -> list[str]:
        return [one.label for one in _finish(adapter, keep, **options).entities]

    assert kinds() == ["highlight", "kept", "pruned"]
    assert kinds(profile="soft") == ["kept", "pruned"]
    assert kinds(profile="soft", highlight_threshold=0.65) == ["highlight", "kept", "pruned"]
    assert kinds(threshold=0.0) == ["highlight", "kept"]
    # What is not kept is not highlighted either.
    assert kinds(threshold=0.96) == ["pruned"]
    with pytest.raises(InvalidInput, match="no profile 'hard'; it has: default, soft"):
        adapter.prepare(request([TEXT], profile="hard"))
    with pytest.raises(InvalidInput, match=r"highlight_threshold 0\.5 is under .* 0\.6"):
        adapter.prepare(request([TEXT], highlight_threshold=0.5))


@pytest.mark.parametrize("query", [None, "", "  "])
def test_a_pruning_without_a_query_is_refused(pruner: Adapter, query: str | None) -> None:
    with pytest.raises(InvalidInput, match="prunes for a query: send it as instruction"):
        pruner.prepare(request([TEXT], query=query))


def test_options_of_other_tasks_are_refused(pruner: Adapter) -> None:
    with pytest.raises(InvalidInput, match=r"no option top_k; it has: threshold, "):
        pruner.prepare(request([TEXT], top_k=3))
    with pytest.raises(InvalidInput, match="can extract and score, not encode"):
        pruner.prepare(encode_request([TEXT]))


def test_one_document_s_failure_leaves_the_others(pruner: Adapter) -> None:
    made = request(["stone", "river", "x"])
    prepared = pruner.prepare(made)
    good = {"keep": np.full(7, 0.9, np.float32), "logits": np.float32([[1.0]])}
    bad = good | {"keep": np.full(7, np.nan, np.float32)}
    items = pruner.finish(made, prepared, [good, InferenceError("it failed"), bad]).items
    assert [len(one.entities) for one in items] == [1, 0, 0]
    assert items[1].error.message == "it failed"
    assert items[2].error.code == "non_finite_output"


def test_long_documents_are_read_in_windows_beside_the_whole_query(pruner: Adapter) -> None:
    text = " ".join(f"w{n % 90}" for n in range(400))
    made = request([text, "stone"])
    sequences = pruner.prepare(made).sequences
    assert max(one.num_tokens for one in sequences) == LIMIT
    query = sequences[-1].input_ids[:5].tolist()
    assert all(one.input_ids[:5].tolist() == query for one in sequences)
    response, outputs = run(pruner, made)
    long, short = response.items
    assert (long.truncated, long.read_to) == (False, None)
    assert long.entities[0].start == 0 and long.entities[-1].end == len(text)
    assert all(text[one.start : one.end] == one.text for one in long.entities)
    assert long.num_tokens == sum(one.num_tokens for one in sequences[:-1])
    best = max(float(one["logits"][0, 0]) for one in outputs[:-1])
    assert long.classifications[0].score == pytest.approx(1 / (1 + np.exp(-best)))
    alone = run(pruner, request(["stone"]))[0].items[0]
    assert alone.entities[0].score == pytest.approx(short.entities[0].score, abs=1e-5)


def test_each_token_is_decided_by_the_window_in_which_it_is_farther_inside(
    pruner: Adapter,
) -> None:
    text = " ".join(f"w{n % 90}" for n in range(300))
    made = request([text], threshold=0.0)
    prepared = pruner.prepare(made)
    reading = prepared.notes[0]
    outputs: list[Any] = [
        {
            "keep": np.full(one.num_tokens, place / 10, np.float32),
            "logits": np.float32([[0.0]]),
        }
        for place, one in enumerate(prepared.sequences)
    ]
    (whole,) = pruner.finish(made, prepared, outputs).items[0].entities
    own = shares(reading.windows)
    mean = sum((one.last - one.first) * place / 10 for place, one in enumerate(own)) / 300
    assert whole.score == pytest.approx(mean, abs=1e-6)


def test_without_windowing_the_first_window_is_read(pruner: Adapter) -> None:
    text = " ".join(f"w{n % 90}" for n in range(300))
    made = request([text], windowing=False)
    assert len(pruner.prepare(made).sequences) == 1
    item = run(pruner, made)[0].items[0]
    assert item.truncated
    assert item.read_to == item.entities[-1].end < len(text)
    assert text[item.read_to] == " "


def test_a_query_that_leaves_no_room_is_refused(pruner: Adapter) -> None:
    run(pruner, request([TEXT * 9], query="w1 " * (LIMIT // 2)))
    with pytest.raises(InputTooLong, match=f"instruction has 80 tokens; .* at most {LIMIT // 2}"):
        pruner.prepare(request([TEXT], query="w1 " * 80))


@pytest.mark.parametrize("num_tokens", [1, 9, 10, 11, 57, 1000])
def test_windows_share_every_token_once(num_tokens: int) -> None:
    windows = make_windows(num_tokens, 10)
    own = shares(windows)
    covered = [place for one in own for place in range(one.first, one.last)]
    assert covered == list(range(num_tokens))
    for window, share in zip(windows, own, strict=True):
        assert window.first <= share.first <= share.last <= window.last
    assert shares([]) == []


def test_sentences_are_judged_by_the_mean_of_their_tokens(pruner: Adapter) -> None:
    text = "Stone river.  Morning\ncoffee! x"
    item = _finish(pruner, [0.9, 0.1, 0.2, 0.7, 0.7, 0.7, 0.3], text, unit="sentence")
    assert [(one.label, one.text) for one in item.entities] == [
        ("pruned", "Stone river."),
        ("kept", "Morning\ncoffee!"),
        ("pruned", "x"),
    ]
    assert [one.score for one in item.entities] == pytest.approx([0.4, 0.7, 0.3])
    assert all(text[one.start : one.end] == one.text for one in item.entities)


def test_a_sentence_that_is_read_in_part_ends_where_reading_does(pruner: Adapter) -> None:
    text = " ".join(f"w{n % 90}" for n in range(300))
    item = run(pruner, request([text], windowing=False, unit="sentence"))[0].items[0]
    assert item.read_to == item.entities[-1].end


@pytest.mark.parametrize("kind", ["bert", "roberta", "eos", "bos"])
def test_a_framed_pair_is_what_the_tokenizer_makes_of_it(kind: str) -> None:
    tokenizer = make_tokenizer(kind)
    first, second = "alpha river", "stone w3 w4"
    whole = tokenizer.encode(first, second)
    bare = [
        np.array(tokenizer.encode(text, add_special_tokens=False).ids) for text in (first, second)
    ]
    ids, types = pair_frame(tokenizer).around(bare[0], bare[1])
    assert ids.tolist() == whole.ids
    assert (np.zeros(len(ids), int) if types is None else types).tolist() == whole.type_ids


def test_offsets_are_those_of_the_caller_s_own_string(pruner: Adapter) -> None:
    text = "  STONE 👩‍👩‍👧 river\n\nİx  "
    for item in run(pruner, request([text, QUERY]))[0].items[:1]:
        assert item.entities
        assert all(text[one.start : one.end] == one.text for one in item.entities)
        assert all(one.text == one.text.strip() for one in item.entities)
