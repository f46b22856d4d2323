"""Scores of pairs: what is read, how a logit becomes a score, how answers are ranked."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

from sie_mcp import wire
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.errors import InferenceError, InputTooLong, InvalidInput, NonFiniteOutput
from tests.running import CPU, encode_request, load, run, score_request, scores
from tests.tiny import MAX_LENGTH, VOCABULARY, bert_config, change_json, save_model, write_json

QUERY = "who wrote it"
DOCUMENTS = ["alpha wrote it", "hello world", "the short document"]
SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=1)))
    return tmp_path


def _logits(folder: Path, query: str = QUERY, documents: list[str] = DOCUMENTS) -> list[float]:
    model = BertForSequenceClassification.from_pretrained(folder)
    request = score_request(query, documents)
    logits = []
    for one in load(folder).prepare(request).sequences:
        with torch.no_grad():
            types = torch.from_numpy(one.token_type_ids)[None]
            found = model(torch.from_numpy(one.input_ids)[None], token_type_ids=types)
        logits.append(found.logits.item())
    return logits


def _sigmoid(logits: list[float]) -> list[float]:
    return [1 / (1 + math.exp(-logit)) for logit in logits]


def _no_key(folder: Path) -> None:
    """Nothing says which activation."""


def _old_key(folder: Path) -> None:
    change_json(folder, "config.json", sbert_ce_default_activation_function=IDENTITY)


def _nested_key(folder: Path) -> None:
    own = {"activation_fn": SIGMOID}
    old = {"sbert_ce_default_activation_function": IDENTITY}
    change_json(folder, "config.json", sentence_transformers=own, **old)


def _settings_file(folder: Path) -> None:
    change_json(folder, "config.json", sentence_transformers={"activation_fn": SIGMOID})
    write_json(folder, "config_sentence_transformers.json", {"activation_fn": IDENTITY})


@pytest.mark.parametrize(
    ("change", "is_raw", "origin"),
    [
        (_no_key, False, "default for 1 label(s)"),
        (_old_key, True, "config.json"),
        (_nested_key, False, "config.json"),
        (_settings_file, True, "config_sentence_transformers.json"),
    ],
)
def test_the_first_file_that_names_an_activation_decides(
    folder: Path, change: Any, is_raw: bool, origin: str
) -> None:
    change(folder)
    adapter = load(folder)
    logits = _logits(folder)
    expected = logits if is_raw else _sigmoid(logits)
    answer = run(adapter, score_request(QUERY, DOCUMENTS))
    np.testing.assert_allclose(scores(adapter, QUERY, DOCUMENTS), expected, atol=1e-5)
    assert answer.score_type == ("logit" if is_raw else "probability")
    assert origin in adapter.card.decisions["score_activation"]
    raw = run(adapter, score_request(QUERY, DOCUMENTS, options={"raw_scores": True}))
    assert raw.score_type == "logit"
    by_index = sorted(raw.scores, key=lambda one: one.index)
    np.testing.assert_allclose([one.score for one in by_index], logits, atol=1e-5)
    # A sigmoid over a sigmoid would lie between 0.5 and 0.731.
    assert not all(0.5 <= one.score <= 0.731 for one in answer.scores)


def test_an_activation_that_is_not_torch_s_own_is_not_run(folder: Path) -> None:
    write_json(folder, "config_sentence_transformers.json", {"activation_fn": "os.system"})
    assert run(load(folder), score_request(QUERY, DOCUMENTS)).score_type == "probability"


def test_close_logits_keep_their_order_as_probabilities(folder: Path) -> None:
    adapter = load(folder)
    request = score_request(QUERY, DOCUMENTS[:2])
    outputs: list[Any] = [{"logits": np.float32([[18.0 + tiny]])} for tiny in (0.0, 1e-5)]
    low, high = adapter.finish(request, adapter.prepare(request), outputs).scores[::-1]
    assert (low.index, high.index) == (0, 1)
    assert low.score < high.score < 1.0


def test_a_pair_is_read_with_both_sides_marked(folder: Path) -> None:
    sequence = load(folder).prepare(score_request("who", ["hello world"])).sequences[0]
    tokens = [VOCABULARY[index] for index in sequence.input_ids]
    assert tokens == ["[CLS]", "who", "[SEP]", "hello", "world", "[SEP]"]
    assert sequence.token_type_ids.tolist() == [0, 0, 0, 1, 1, 1]


def test_the_order_of_a_pair_matters(folder: Path) -> None:
    assert abs(_logits(folder, "alpha", ["beta"])[0] - _logits(folder, "beta", ["alpha"])[0]) > 1e-3


def test_the_longer_side_is_cut_first(folder: Path) -> None:
    adapter = load(folder)
    for query, document, num_query in (
        ("who wrote it", "the " * 500, 3),
        ("the " * 500, "short document", MAX_LENGTH - 3 - 2),
        ("the " * 500, "world " * 500, 62),
    ):
        prepared = adapter.prepare(score_request(query, [document]))
        types = prepared.sequences[0].token_type_ids
        assert len(types) == MAX_LENGTH
        assert (types == 0).sum() == num_query + 2
        assert prepared.notes[0].truncated


def test_a_short_query_is_whole_and_a_long_one_leaves_the_document_whole(folder: Path) -> None:
    """Case T23, calls 1 and 2."""
    adapter = load(folder)

    def read(query: str, document: str) -> list[str]:
        request = score_request(query, [document], options={"max_length": 64})
        return [VOCABULARY[one] for one in adapter.prepare(request).sequences[0].input_ids]

    query = ["[CLS]", "who", "wrote", "it", "[SEP]"]
    assert read("who wrote it", "w " * 500) == [*query, *["w"] * 58, "[SEP]"]
    document = ["[SEP]", "short", "document", "[SEP]"]
    assert read("q " * 500, "short document") == ["[CLS]", *["q"] * 59, *document]


def test_truncation_is_told_and_can_be_refused(folder: Path) -> None:
    adapter = load(folder)
    documents = ["short", "the " * 500]
    answer = run(adapter, score_request(QUERY, documents))
    by_index = sorted(answer.scores, key=lambda one: one.index)
    assert [(one.num_tokens, one.truncated) for one in by_index] == [(7, False), (128, True)]
    assert answer.usage.input_tokens == 135
    with pytest.raises(InputTooLong, match=r"items\[1\].*128"):
        adapter.prepare(score_request(QUERY, documents, options={"truncate": False}))


def test_answers_are_ranked_with_ties_by_index_and_failures_last(folder: Path) -> None:
    adapter = load(folder)
    request = score_request(QUERY, ["a", "b", "c", "d"])
    prepared = adapter.prepare(request)
    outputs: list[Any] = [
        InferenceError("the forward pass failed"),
        {"logits": np.float32([[0.5]])},
        {"logits": np.float32([[np.nan]])},
        {"logits": np.float32([[0.5]])},
    ]
    found = adapter.finish(request, prepared, outputs).scores
    assert [one.index for one in found] == [1, 3, 0, 2]
    assert [one.rank for one in found] == [0, 1, 2, 3]
    assert [one.score is None for one in found] == [False, False, True, True]
    assert [one.error.code for one in found[2:]] == [InferenceError.code, NonFiniteOutput.code]


def test_scores_carry_the_caller_s_ids(folder: Path) -> None:
    request = wire.ScoreRequest(
        query=wire.Item(text="q", id="the-query"),
        items=[wire.Item(text="alpha", id="first"), wire.Item(text="beta")],
    )
    answer = run(load(folder), request)
    assert answer.query_id == "the-query"
    assert {one.item_id for one in answer.scores} == {"first", "item-1"}


def test_it_scores_and_does_nothing_else(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="cross-encoder: it can score, nothing else"):
        load(folder).prepare(encode_request(["alpha"]))


def test_a_pair_scores_the_same_alone_and_beside_longer_ones(folder: Path) -> None:
    adapter = load(folder)
    together = adapter.prepare(score_request(QUERY, ["alpha", "the " * 100, "beta"]))
    with torch.inference_mode():
        beside = unpack(adapter.forward(pack(together.sequences, CPU)), 3)[0]["logits"]
        alone = unpack(adapter.forward(pack(together.sequences[:1], CPU)), 1)[0]["logits"]
    np.testing.assert_allclose(beside, alone, atol=1e-5)
