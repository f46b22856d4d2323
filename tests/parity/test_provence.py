"""Both dialects of Provence against the formula: ranking score and keep mask of one forward."""

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import write_json
from tests.parity.pruners import (
    DOCUMENTS,
    QUERY,
    difference,
    formula,
    found,
    linear,
    request,
    save_open_provence,
    save_provence,
)
from tests.parity.run import load, run
from tests.tiny import change_json

TOLERANCE = 1e-5
TEXT = "Stone river. Morning coffee."


def score(adapter, documents=DOCUMENTS):
    items = [wire.Item(text=text) for text in documents]
    response, _ = run(adapter, wire.ScoreRequest(query=wire.Item(text=QUERY), items=items))
    scores = sorted(response.scores, key=lambda one: one.index)
    return response.score_type, [one.score for one in scores]


@pytest.mark.parametrize("row", ["xlm-roberta", "bert", "deberta-v2"])
def test_open_provence_equals_the_formula(row, tmp_path):
    reference, head = save_open_provence(tmp_path, row)
    adapter = load(tmp_path)
    expected = formula(reference, linear(head), tmp_path)
    assert difference(found(adapter), expected) <= TOLERANCE
    assert difference(found(adapter, DOCUMENTS[:1]), expected[:1]) <= TOLERANCE
    kind, scores = score(adapter)
    logits = torch.tensor([logit for logit, _ in expected])
    assert kind == "probability"
    np.testing.assert_allclose(scores, logits.sigmoid().numpy(), atol=TOLERANCE)
    assert "0.1 (default of Provence)" in adapter.card.decisions["threshold"]


def test_modernbert_s_head_reads_what_is_before_the_last_norm(tmp_path):
    """As in transformers 4, with which OpenProvence was trained: its last hidden states."""
    reference, head = save_open_provence(tmp_path, "modernbert")
    adapter = load(tmp_path)
    last = reference.model.final_norm
    expected = formula(reference, linear(head), tmp_path, read_by=last)
    assert difference(found(adapter), expected) <= TOLERANCE
    assert difference(found(adapter), formula(reference, linear(head), tmp_path)) > 1e-2
    assert "before the last norm" in adapter.card.decisions["pruning_states"]


def test_the_authors_class_equals_the_formula(tmp_path):
    reference, head = save_provence(tmp_path)
    adapter = load(tmp_path)
    expected = formula(reference, linear(head), tmp_path)
    assert difference(found(adapter), expected) <= TOLERANCE
    kind, scores = score(adapter)
    # The score is the ranking logit itself.
    assert kind == "logit"
    np.testing.assert_allclose(scores, [logit for logit, _ in expected], atol=TOLERANCE)


def test_of_two_ranking_logits_the_first_is_the_score(tmp_path):
    reference, head = save_provence(tmp_path, "classification")
    change_json(tmp_path, "config.json", id2label={0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"})
    adapter = load(tmp_path)
    expected = [logit for logit, _ in formula(reference, linear(head), tmp_path)]
    np.testing.assert_allclose(score(adapter)[1], expected, atol=TOLERANCE)
    item = run(adapter, request(DOCUMENTS[:1]))[0].items[0]
    assert item.classifications[0].score == pytest.approx(expected[0], abs=TOLERANCE)


def test_a_sentence_is_kept_by_the_mean_of_its_tokens(tmp_path):
    reference, head = save_open_provence(tmp_path, "xlm-roberta")
    (_, probabilities), *_ = formula(reference, linear(head), tmp_path, [TEXT])
    means = [float(probabilities[:3].mean()), float(probabilities[3:].mean())]
    between = sum(means) / 2
    item = run(load(tmp_path), request([TEXT], threshold=between))[0].items[0]
    assert [one.text for one in item.entities] == ["Stone river.", "Morning coffee."]
    assert [one.score for one in item.entities] == pytest.approx(means, abs=TOLERANCE)
    kinds = ["kept" if mean >= between else "pruned" for mean in means]
    assert [one.label for one in item.entities] == kinds and len(set(kinds)) == 2
    by_token = run(load(tmp_path), request([TEXT], unit="token", threshold=0.0))[0].items[0]
    assert [one.text for one in by_token.entities] == [TEXT]


def test_its_own_limit_and_threshold_are_read(tmp_path):
    save_open_provence(tmp_path, "xlm-roberta", max_length=64, default_threadshold=0.25)
    adapter = load(tmp_path)
    assert adapter.card.max_sequence_length == 64
    assert adapter.card.profiles["default"]["threshold"] == 0.25
    assert max(one.num_tokens for one in adapter.prepare(request()).sequences) == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "pruning_only"}, "mode 'pruning_only' is not supported"),
        ({"num_labels": 2}, "num_labels 2 is not supported"),
        ({"num_pruning_labels": 3}, "num_pruning_labels 3 is not supported"),
        ({"base_model_config": None}, "open_provence without a base_model_config"),
        ({"pruning_config": {"use_weighted_pooling": True}}, "use_weighted_pooling True is not"),
        ({"pruning_config": {"sentence_pooling": "max"}}, "sentence_pooling 'max' is not"),
        ({"pruning_config": {"hidden_size": 16}}, "reads 16 numbers, what is before it is 32"),
    ],
)
def test_settings_that_would_change_the_numbers_are_refused(changes, message, tmp_path):
    save_open_provence(tmp_path, "xlm-roberta", **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_head_that_is_not_among_the_tensors_is_named(tmp_path):
    save_open_provence(tmp_path, "xlm-roberta")
    other = tmp_path / "other"
    save_provence(other)
    (other / "model.safetensors").replace(tmp_path / "model.safetensors")
    with pytest.raises(ModelLoadFailed, match=r"'deberta.* is unknown to architecture"):
        load(tmp_path)
    write_json(tmp_path / "config.json", {"model_type": "Provence"})
    with pytest.raises(ModelLoadFailed, match="'Provence', which is not supported"):
        load(tmp_path)
