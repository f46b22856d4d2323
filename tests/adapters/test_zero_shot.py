"""Labels of the caller's own, judged by a classifier that was trained on inference."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, ZeroShotClassificationPipeline

from sie_mcp.errors import InputTooLong, InvalidInput
from tests.adapters.classifiers import (
    MNLI,
    TEXTS,
    TOLERANCE,
    by_label,
    logits_of,
    save_classifier,
    softmax,
)
from tests.running import extract, extract_request, load, run
from tests.tiny import MAX_LENGTH

CANDIDATES = ["machine learning", "coffee", "alpha beta", "coffee"]
# Where the labels of inference stand differs from checkpoint to checkpoint.
INFERENCE = [
    MNLI,
    ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"],
    ["contradiction", "Entailment", "neutral"],
    ["entailment", "not_entailment"],
]


@pytest.mark.parametrize("labels", INFERENCE, ids=str)
@pytest.mark.parametrize("multi_label", [None, False, True])
@pytest.mark.parametrize("candidates", [CANDIDATES, ["coffee"]], ids=len)
def test_labels_of_the_caller_s_own_follow_the_formula(
    tmp_path: Path, labels: list[str], multi_label: bool | None, candidates: list[str]
) -> None:
    """exp(e_c) / sum of exp(e) over candidates; alone: exp(e) / (exp(c) + exp(e))."""
    model = save_classifier(tmp_path, labels)
    adapter = load(tmp_path)
    own = list(dict.fromkeys(candidates))
    request = extract_request(TEXTS, candidates, multi_label=multi_label)
    logits = logits_of(model, adapter, request).reshape(len(TEXTS), len(own), -1)
    places = {label.lower()[:9]: place for place, label in enumerate(labels)}
    entail, other = places["entailmen"], places.get("contradic", places.get("not_entai"))
    pairs = softmax(logits[..., [other, entail]])[..., 1]
    is_alone = multi_label or len(own) == 1
    expected = pairs if is_alone else softmax(logits[..., entail])
    for item, row, cut in zip(run(adapter, request).items, expected, [0, 0, 1, 0], strict=True):
        found = [by_label(item)[label] for label in own]
        np.testing.assert_allclose(found, row, atol=TOLERANCE, rtol=0)
        assert len(item.classifications) == len(own)
        assert item.truncated == bool(cut)
    assert adapter.card.decisions["entailment_label"] == f"{labels[entail]} (config.json)"
    assert adapter.card.decisions["contradiction_label"] == f"{labels[other]} (config.json)"


@pytest.mark.parametrize("labels", INFERENCE, ids=str)
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("candidates", [CANDIDATES[:3], ["coffee"]], ids=len)
def test_it_equals_the_pipeline_of_transformers(
    tmp_path: Path, labels: list[str], multi_label: bool, candidates: list[str]
) -> None:
    model = save_classifier(tmp_path, labels)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    pipeline = ZeroShotClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    template = "the passage is of {}!"
    answers = pipeline(TEXTS, candidates, hypothesis_template=template, multi_label=multi_label)
    options = {"hypothesis_template": template, "multi_label": multi_label}
    items = extract(load(tmp_path), TEXTS, candidates, **options)
    for item, answer in zip(items, answers, strict=True):
        expected = dict(zip(answer["labels"], answer["scores"], strict=True))
        found = by_label(item)
        assert found.keys() == expected.keys()
        for label, score in expected.items():
            assert found[label] == pytest.approx(score, abs=TOLERANCE)
        assert [one.label for one in item.classifications] == answer["labels"]


def test_raw_scores_of_the_caller_s_own_labels_are_the_entailment_logits(tmp_path: Path) -> None:
    model = save_classifier(tmp_path, MNLI)
    adapter = load(tmp_path)
    request = extract_request(["alpha"], ["one", "two"], raw_scores=True)
    logits = logits_of(model, adapter, request)[:, 2]
    found = by_label(run(adapter, request).items[0])
    np.testing.assert_allclose([found["one"], found["two"]], logits, atol=TOLERANCE)


def test_the_text_alone_is_cut_and_the_hypothesis_never(tmp_path: Path) -> None:
    save_classifier(tmp_path, MNLI)
    adapter = load(tmp_path)
    long = " ".join(["alpha"] * 100)
    sequence = adapter.prepare(extract_request(["the " * 300], [long])).sequences[0]
    # This example is {long}. — most letters are tokens of their own here.
    (alone,) = adapter.prepare(extract_request(["hello"], [long])).sequences
    hypothesis = int((alone.token_type_ids == 1).sum())
    assert int((sequence.token_type_ids == 1).sum()) == hypothesis > 100
    assert len(sequence.input_ids) == MAX_LENGTH
    with pytest.raises(InputTooLong, match=r"label 'alpha.*leaves no room.*128 in all; shorten"):
        adapter.prepare(extract_request(["hello"], [long + " alpha" * 25]))


def test_a_label_with_braces_is_taken_as_it_is(tmp_path: Path) -> None:
    save_classifier(tmp_path, MNLI)
    adapter = load(tmp_path)
    labels = ["{}", "{0}", "{alpha}", "a}b{"]
    (item,) = extract(adapter, ["beta"], labels)
    assert {one.label for one in item.classifications} == set(labels)
    plain = adapter.prepare(extract_request(["beta"], ["alpha"], hypothesis_template="the {{}}"))
    braces = adapter.prepare(extract_request(["beta"], ["{alpha}"], hypothesis_template="the {}"))
    assert plain.sequences[0].input_ids.tolist() == braces.sequences[0].input_ids.tolist()


@pytest.mark.parametrize("template", ["This is it.", "{} and {}", "{0}"])
def test_a_template_holds_one_gap(tmp_path: Path, template: str) -> None:
    save_classifier(tmp_path, MNLI)
    request = extract_request(["beta"], ["alpha", "one"], hypothesis_template=template)
    with pytest.raises(InvalidInput, match=r"must hold \{\} once, for the label"):
        load(tmp_path).prepare(request)


def test_the_head_s_own_labels_come_back_where_none_are_given(tmp_path: Path) -> None:
    model = save_classifier(tmp_path, MNLI)
    adapter = load(tmp_path)
    request = extract_request(["alpha"])
    expected = softmax(logits_of(model, adapter, request))[0]
    found = by_label(run(adapter, request).items[0])
    np.testing.assert_allclose([found[label] for label in MNLI], expected, atol=TOLERANCE)


def test_without_a_contradiction_label_labels_cannot_be_judged_alone(tmp_path: Path) -> None:
    save_classifier(tmp_path, ["unknown", "entailment", "unrelated"])
    adapter = load(tmp_path)
    assert "contradiction_label" not in adapter.card.decisions
    assert len(extract(adapter, ["alpha"], ["one", "two"])[0].classifications) == 2
    for labels, options in ((["one"], {}), (["one", "two"], {"multi_label": True})):
        with pytest.raises(InvalidInput, match="has no contradiction label"):
            adapter.prepare(extract_request(["alpha"], labels, **options))


def test_texts_times_labels_have_a_limit(tmp_path: Path) -> None:
    save_classifier(tmp_path, MNLI)
    labels = [f"label {number}" for number in range(10_001)]
    with pytest.raises(InvalidInput, match=r"2 items with 10001 labels .* limit of 20,000 pairs"):
        load(tmp_path).prepare(extract_request(["alpha", "beta"], labels))
