"""Classifiers of whole texts: activations, labels of their own, scores of pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import InferenceError, InvalidInput, ModelLoadFailed
from tests.adapters.classifiers import (
    MNLI,
    MOODS,
    TEXTS,
    TOLERANCE,
    by_label,
    logits_of,
    save_classifier,
    softmax,
)
from tests.running import encode_request, extract, extract_request, load, run, score_request, scores
from tests.tiny import MAX_LENGTH, change_json, write_json

ACTIVATIONS = {
    "identity": lambda logits: logits,
    "sigmoid": lambda logits: 1 / (1 + np.exp(-logits)),
    "softmax": softmax,
}


@pytest.mark.parametrize(
    ("changes", "activation", "origin"),
    [
        ({}, "softmax", "default for 3 label(s)"),
        ({"problem_type": "regression"}, "identity", "problem_type regression"),
        ({"problem_type": "single_label_classification"}, "softmax", "single_label"),
        ({"problem_type": "multi_label_classification"}, "sigmoid", "multi_label"),
        (
            {
                "problem_type": "single_label_classification",
                "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
            },
            "sigmoid",
            "config.json",
        ),
    ],
    ids=str,
)
def test_the_kind_of_problem_decides_the_activation(
    tmp_path: Path, changes: dict[str, Any], activation: str, origin: str
) -> None:
    model = save_classifier(tmp_path, MOODS)
    change_json(tmp_path, "config.json", **changes)
    adapter = load(tmp_path)
    assert origin in adapter.card.decisions["score_activation"]
    assert adapter.card.decisions["tasks"] == "classification (config.json, 3 labels)"
    logits = logits_of(model, adapter, extract_request(TEXTS))
    expected = ACTIVATIONS[activation](logits)
    for item, row in zip(extract(adapter, TEXTS), expected, strict=True):
        found = [by_label(item)[label] for label in MOODS]
        np.testing.assert_allclose(found, row, atol=TOLERANCE, rtol=0)
        assert [one.score for one in item.classifications] == sorted(found, reverse=True)
    for item, row in zip(extract(adapter, TEXTS, raw_scores=True), logits, strict=True):
        found = [by_label(item)[label] for label in MOODS]
        np.testing.assert_allclose(found, row, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("problem", "activation"),
    [
        (None, "sigmoid"),
        ("single_label_classification", "sigmoid"),
        ("regression", "identity"),
    ],
)
def test_one_label_is_a_classifier_where_the_catalogue_says_so(
    tmp_path: Path, problem: str | None, activation: str
) -> None:
    model = save_classifier(tmp_path, ["quality"])
    change_json(tmp_path, "config.json", problem_type=problem)
    assert load(tmp_path).card.primitives == ["score"]
    adapter = load(tmp_path, tasks=("classification",))
    assert adapter.card.primitives == ["extract", "score"]
    expected = ACTIVATIONS[activation](logits_of(model, adapter, extract_request(TEXTS)))
    found = [item.classifications[0].score for item in extract(adapter, TEXTS)]
    np.testing.assert_allclose(found, expected[:, 0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem_type": "ranking"}, "problem_type 'ranking' is not supported; supported: reg"),
        (
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Tanh"},
            "Tanh' is not supported; supported: Sigmoid",
        ),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "id2label names a more than once"),
        ({"id2label": {"a": "0", "b": "1"}}, "id2label must be numbered"),
        (
            {"id2label": {"0": "a", "1": "b"}},
            r"classifier.weight has shape \[3, 64\], id2label in config.json asks for \[2, 64\]",
        ),
    ],
    ids=str,
)
def test_what_is_not_served_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    save_classifier(tmp_path, MOODS)
    change_json(tmp_path, "config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_only_labels_asked_for_come_back_above_the_threshold_and_at_most_top_k(
    tmp_path: Path,
) -> None:
    save_classifier(tmp_path, MOODS)
    adapter = load(tmp_path)
    assert adapter.card.labels == MOODS
    assert adapter.card.outputs == ["classifications"]
    (full,) = extract(adapter, ["alpha"])
    ranked = [one.label for one in full.classifications]
    (some,) = extract(adapter, ["alpha"], ["GLAD", "sad", "Glad"])
    assert [one.label for one in some.classifications] == [x for x in ranked if x != "mixed"]
    (best,) = extract(adapter, ["alpha"], top_k=2)
    assert best.classifications == full.classifications[:2]
    middle = full.classifications[1].score
    (above,) = extract(adapter, ["alpha"], threshold=middle)
    assert above.classifications == full.classifications[:2]
    with pytest.raises(InvalidInput, match="the label 'angry'; it knows: sad, Glad, mixed"):
        adapter.prepare(extract_request(["alpha"], ["angry"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_label": True}, "its own labels has no option multi_label; it has: threshold"),
        ({"hypothesis_template": "It is {}."}, "no option hypothesis_template"),
        ({"windowing": False}, "no option windowing"),
        ({"raw_scores": True, "threshold": 0.5}, "threshold is for probabilities"),
    ],
    ids=str,
)
def test_an_option_that_would_change_nothing_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    save_classifier(tmp_path, MOODS)
    with pytest.raises(InvalidInput, match=message):
        load(tmp_path).prepare(extract_request(["alpha"], **options))


def test_it_classifies_and_scores_but_has_no_vectors(tmp_path: Path) -> None:
    save_classifier(tmp_path, MOODS)
    with pytest.raises(InvalidInput, match="it can extract and score, not encode"):
        load(tmp_path).prepare(encode_request(["alpha"]))


def test_a_long_text_is_cut_and_told(tmp_path: Path) -> None:
    save_classifier(tmp_path, MOODS)
    items = extract(load(tmp_path), TEXTS)
    assert [item.truncated for item in items] == [False, False, True, False]
    assert items[2].num_tokens == MAX_LENGTH


def test_an_instruction_stands_in_front_of_every_text(tmp_path: Path) -> None:
    save_classifier(tmp_path, MOODS)
    adapter = load(tmp_path)
    request = extract_request(["beta"])
    request.params.instruction = "alpha"
    assert run(adapter, request).items[0] == extract(adapter, ["alpha beta"])[0]


def test_a_failed_sequence_fails_its_item_alone(tmp_path: Path) -> None:
    save_classifier(tmp_path, MNLI)
    adapter = load(tmp_path)
    request = extract_request(["alpha", "beta"], ["one", "two"])
    row = {"logits": np.float32([[0.1, 0.2, 0.3]])}
    failure = InferenceError("the forward pass failed")
    results: list[Any] = [row, failure, row, row]
    first, second = adapter.finish(request, adapter.prepare(request), results).items
    assert (first.error.code, first.classifications) == (InferenceError.code, [])
    assert (second.error, len(second.classifications)) == (None, 2)


def _scored(adapter: Adapter, **options: Any) -> dict[int, Any]:
    answer = run(adapter, score_request("who wrote it", TEXTS, options=options))
    return {one.index: one for one in answer.scores}


def test_a_pair_is_scored_by_the_label_that_the_request_names(tmp_path: Path) -> None:
    model = save_classifier(tmp_path, MOODS)
    adapter = load(tmp_path)
    logits = logits_of(
        model, adapter, score_request("who wrote it", TEXTS, options={"label": "sad"})
    )
    expected = softmax(logits)
    for index, one in _scored(adapter, label="glad").items():
        assert one.score == pytest.approx(expected[index, 1], abs=TOLERANCE)
        assert list(one.label_scores) == MOODS
        found = list(one.label_scores.values())
        np.testing.assert_allclose(found, expected[index], atol=TOLERANCE)
    for index, one in _scored(adapter, label="mixed", raw_scores=True).items():
        assert one.score == pytest.approx(logits[index, 2], abs=TOLERANCE)
        np.testing.assert_allclose(list(one.label_scores.values()), logits[index], atol=TOLERANCE)
    with pytest.raises(InvalidInput, match=r"has 3 labels: say which .*: sad, Glad, mixed"):
        adapter.prepare(score_request("q", ["d"]))
    with pytest.raises(InvalidInput, match="does not know the label 'angry'"):
        adapter.prepare(score_request("q", ["d"], options={"label": "angry"}))


@pytest.mark.parametrize(
    ("labels", "entry", "place", "origin"),
    [
        (MOODS, {"score_label": "mixed"}, 2, "mixed (catalogue)"),
        (MNLI, {}, 2, "entailment (the entailment label)"),
        (MNLI, {"score_label": "neutral"}, 1, "neutral (catalogue)"),
        (["LABEL_0", "LABEL_1"], {}, 1, "LABEL_1 (default for two labels without names: the last)"),
    ],
    ids=str,
)
def test_the_label_to_score_by_has_a_default_and_an_origin(
    tmp_path: Path, labels: list[str], entry: dict[str, str], place: int, origin: str
) -> None:
    save_classifier(tmp_path, labels)
    adapter = load(tmp_path, **entry)
    assert adapter.card.decisions["score_label"] == origin
    default = scores(adapter, "who", TEXTS)
    assert default == scores(adapter, "who", TEXTS, options={"label": labels[place]})


def test_the_catalogue_s_label_must_be_one_of_the_head_s(tmp_path: Path) -> None:
    save_classifier(tmp_path, MOODS)
    with pytest.raises(ModelLoadFailed, match=r"score_label 'angry' is none of .*: sad, Glad"):
        load(tmp_path, score_label="angry")


def test_a_sentence_transformers_activation_of_many_labels_wins(tmp_path: Path) -> None:
    save_classifier(tmp_path, MNLI)
    identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
    write_json(tmp_path, "config_sentence_transformers.json", identity)
    answer = run(load(tmp_path), score_request("who", ["alpha"]))
    assert answer.score_type == "logit"
