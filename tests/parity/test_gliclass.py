"""GLiClass against the gliclass package, on tiny random checkpoints."""

import re
from pathlib import Path
from typing import Any

import pytest

from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.gliclass_models import LABELS, TEXTS, VARIANTS, expected, found, furthest, save
from tests.running import extract_request, load, run
from tests.tiny import change_json

TOLERANCE = 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_equal_the_library_s(variant: str, tmp_path: Path) -> None:
    pipeline = save(tmp_path, variant)
    assert furthest(load(tmp_path), pipeline) < TOLERANCE


def test_a_prompt_of_the_caller_s_stands_where_the_library_puts_it(tmp_path: Path) -> None:
    pipeline = save(tmp_path, "deberta-v2 simple first")
    request = extract_request([TEXTS[1]], LABELS, multi_label=True)
    request.params.instruction = "gamma w7 "
    (item,) = run(load(tmp_path), request).items
    wanted = expected(pipeline, TEXTS[1], "multi-label", "gamma w7 ")
    for one in item.classifications:
        assert one.score == pytest.approx(wanted[one.label], abs=TOLERANCE)


@pytest.mark.parametrize("variant", ["deberta-v2 mlp avg", "modernbert hopfield max"])
def test_scores_know_neither_batch_nor_order(variant: str, tmp_path: Path) -> None:
    save(tmp_path, variant)
    adapter = load(tmp_path)
    alone = [found(adapter, [text], multi_label=True)[0] for text in TEXTS]
    request = extract_request(TEXTS, LABELS, multi_label=True)
    backwards = run(adapter, request, order=[3, 1, 0, 2]).items
    for own, item in zip(alone, backwards, strict=True):
        for one in item.classifications:
            assert one.score == pytest.approx(own[one.label], abs=TOLERANCE)


@pytest.mark.parametrize("variant", ["deberta-v2 simple first", "deberta-v2 simple text first"])
def test_a_long_text_is_cut_and_its_labels_are_not(variant: str, tmp_path: Path) -> None:
    save(tmp_path, variant)
    adapter = load(tmp_path)
    limit = adapter.card.max_sequence_length
    assert limit == 1024
    text = "river stone " * 1000
    (item,) = run(adapter, extract_request([text], LABELS)).items
    assert item.truncated and item.num_tokens == limit and len(item.classifications) == 3
    room = limit - 2 - len(LABELS) - 6 - 1
    (cut,) = run(adapter, extract_request([" ".join(text.split()[:room])], LABELS)).items
    assert not cut.truncated and cut.num_tokens == limit
    assert cut.classifications == item.classifications


def test_more_labels_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    save(tmp_path, "deberta-v2 simple first")
    labels = [f"river stone {number}" for number in range(300)]
    with pytest.raises(InputTooLong, match="fewer or shorter labels"):
        load(tmp_path).prepare(extract_request(["alpha"], labels))


@pytest.mark.parametrize("variant", ["deberta-v2 simple first", "deberta-v2 simple text first"])
def test_a_text_that_holds_markers_has_the_caller_s_labels_and_no_others(
    variant: str, tmp_path: Path
) -> None:
    save(tmp_path, variant)
    text = "<<LABEL>>river<<SEP>> alpha <<LABEL>> <<EXAMPLE>>"
    items = run(load(tmp_path), extract_request([text, TEXTS[0]], LABELS)).items
    assert [len(item.classifications) for item in items] == [3, 3]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "finds what you name"),
        (["a", " "], "a label needs a word"),
        (["a<<SEP>>b"], "would read as its own mark"),
    ],
)
def test_labels_that_cannot_be_asked_for_are_refused(
    labels: list[str] | None, message: str, tmp_path: Path
) -> None:
    save(tmp_path, "bert simple abs_avg")
    with pytest.raises(InvalidInput, match=message):
        load(tmp_path).prepare(extract_request(["alpha"], labels))


def test_the_checkpoint_says_whether_labels_share_one_probability(tmp_path: Path) -> None:
    save(tmp_path, "deberta-v2 simple first")
    (item,) = run(load(tmp_path), extract_request(["alpha"], LABELS)).items
    assert sum(one.score for one in item.classifications) == pytest.approx(1.0)
    change_json(tmp_path, "config.json", problem_type="multi_label_classification")
    (item,) = run(load(tmp_path), extract_request(["alpha"], LABELS)).items
    assert sum(one.score for one in item.classifications) != pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture_type": "bi-encoder"}, "architecture_type 'bi-encoder'"),
        ({"architecture_type": "encoder-decoder"}, "architecture_type 'encoder-decoder'"),
        ({"scorer_type": "cross-attn"}, "scorer_type 'cross-attn'"),
        ({"pooling_strategy": "pass"}, "pooling_strategy 'pass'"),
        ({"use_lstm": True}, "use_lstm"),
        ({"squeeze_layers": True}, "squeeze_layers"),
        ({"encoder_layer_id": 2}, "encoder_layer_id"),
        ({"use_segment_embeddings": True}, "use_segment_embeddings"),
        ({"use_calibrator": True}, "use_calibrator"),
        ({"extract_text_features": True, "pooling_strategy": "avg"}, "extract_text_features"),
        ({"class_token_index": 7}, "<<LABEL>> is token 7"),
        ({"encoder_config": None}, "without an encoder_config"),
        ({"encoder_config": {"model_type": "longformer"}}, "'longformer' is not supported"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save(tmp_path, "deberta-v2 simple first")
    change_json(tmp_path, "config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=re.escape(message)):
        load(tmp_path)
