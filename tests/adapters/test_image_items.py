"""Images as items: what goes wrong with one, and what a model of two towers refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.image_towers import FILES, PAIRS, TEXTS, save_pair
from tests.parity.run import load
from tests.picture_files import encode_images, image_item, label_images, match_images, noise, saved
from tests.running import encode_request, extract_request, run
from tests.tiny import change_json

BROKEN = saved(noise(40, 40))[:200]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    folder = tmp_path_factory.mktemp("clip")
    save_pair(PAIRS[0], folder)
    return load(folder)


@pytest.fixture(scope="module")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    folder = tmp_path_factory.mktemp("siglip")
    save_pair(PAIRS[2], folder)
    return load(folder)


def test_a_broken_image_fails_alone(clip: Adapter) -> None:
    good = run(clip, encode_images(FILES[:2])).items
    first, second, third = run(clip, encode_images([FILES[0], BROKEN, FILES[1]])).items
    assert np.array_equal(first.dense.values, good[0].dense.values)
    assert np.array_equal(third.dense.values, good[1].dense.values)
    assert (second.dense, second.error.code) == (None, "INVALID_IMAGE")
    assert "broken or cut off" in second.error.message


def test_a_broken_image_is_last_of_those_scored(siglip: Adapter) -> None:
    scores = run(siglip, match_images("alpha", [BROKEN, FILES[0]])).scores
    assert [one.index for one in scores] == [1, 0]
    assert scores[1].error.code == "INVALID_IMAGE"
    request = match_images("alpha", FILES[:2]).model_copy(update={"query": image_item(BROKEN)})
    assert {one.error.code for one in run(siglip, request).scores} == {"INVALID_IMAGE"}


def test_a_broken_image_has_no_labels_and_others_have(clip: Adapter) -> None:
    bad, good = run(clip, label_images([BROKEN, FILES[0]], TEXTS)).items
    assert (bad.classifications, bad.error.code) == ([], "INVALID_IMAGE")
    assert len(good.classifications) == len(TEXTS)


def test_an_image_counts_a_token_a_patch(clip: Adapter, siglip: Adapter) -> None:
    for adapter, expected in ((clip, 17), (siglip, 9)):
        request = encode_images(FILES[:2])
        assert adapter.prepare(request).num_tokens == 2 * expected
        response = run(adapter, request)
        assert [one.num_tokens for one in response.items] == [expected] * 2
        assert response.usage.input_tokens == 2 * expected


def test_texts_and_images_are_encoded_side_by_side(clip: Adapter) -> None:
    images, texts = encode_images(FILES[:2]), encode_request(TEXTS[:2], "dense")
    mixed = images.model_copy(
        update={"items": [texts.items[0], images.items[0], texts.items[1], images.items[1]]}
    )
    found = [one.dense.values for one in run(clip, mixed).items]
    apart = [one.dense.values for one in (*run(clip, texts).items, *run(clip, images).items)]
    for place, expected in zip((0, 2, 1, 3), apart, strict=True):
        assert np.abs(found[place] - expected).max() <= 1e-5


def test_dimensions_and_unit_length_are_an_image_s_too(clip: Adapter) -> None:
    (found,) = run(clip, encode_images(FILES[:1], dimensions=8, normalize=True)).items
    assert found.dense.dims == 8
    assert np.isclose(np.linalg.norm(found.dense.values), 1.0)


def test_two_images_and_two_texts_are_compared_by_cosine(siglip: Adapter) -> None:
    query = image_item(FILES[0])
    request = match_images("", FILES[:3]).model_copy(update={"query": query})
    response = run(siglip, request)
    assert response.score_type == "similarity"
    assert response.scores[0].index == 0
    assert np.isclose(response.scores[0].score, 1.0, atol=1e-5)


def test_items_of_both_kinds_are_not_ranked_together(siglip: Adapter) -> None:
    request = match_images("alpha", FILES[:1])
    mixed = request.model_copy(update={"items": [*request.items, request.query]})
    with pytest.raises(InvalidInput, match="cannot be compared"):
        run(siglip, mixed)


def test_clip_s_labels_share_one_probability_and_siglip_s_do_not(
    clip: Adapter, siglip: Adapter
) -> None:
    (shared,) = run(clip, label_images(FILES[:1], TEXTS)).items
    assert np.isclose(sum(one.score for one in shared.classifications), 1.0)
    (alone,) = run(siglip, label_images(FILES[:1], TEXTS)).items
    (fewer,) = run(siglip, label_images(FILES[:1], TEXTS[:1])).items
    by_label = {one.label: one.score for one in alone.classifications}
    assert np.isclose(by_label[TEXTS[0]], fewer.classifications[0].score, atol=1e-6)


def test_the_best_labels_and_those_over_a_threshold_are_kept(clip: Adapter) -> None:
    (found,) = run(clip, label_images(FILES[:1], TEXTS, top_k=1)).items
    (every,) = run(clip, label_images(FILES[:1], [*TEXTS, TEXTS[0]])).items
    assert [one.label for one in found.classifications] == [every.classifications[0].label]
    assert len(every.classifications) == len(TEXTS)
    (none,) = run(clip, label_images(FILES[:1], TEXTS, threshold=1.0)).items
    assert none.classifications == []


REFUSED = [
    (label_images(FILES[:1], TEXTS, multi_label=True), "compares labels with each other"),
    (label_images(FILES[:1], TEXTS, unit="token"), "has no option unit"),
    (label_images(FILES[:1], TEXTS, threshold=0.5, raw_scores=True), "raw_scores asks for logits"),
    (label_images(FILES[:1], TEXTS, hypothesis_template="a photo"), "must hold {} once"),
    (extract_request(["alpha"], TEXTS), "classifies images, not texts"),
    (extract_request(["alpha"]), "classifies images, not texts"),
    (label_images(FILES[:1], [str(place) for place in range(4_097)]), "more than 4,096 labels"),
]


@pytest.mark.parametrize(("request_", "message"), REFUSED)
def test_what_labels_cannot_have_is_refused(request_: Any, message: str, clip: Adapter) -> None:
    with pytest.raises(InvalidInput, match=message):
        clip.prepare(request_)


def test_labels_are_needed(clip: Adapter) -> None:
    request = label_images(FILES[:1], TEXTS)
    none = request.model_copy(update={"params": request.params.model_copy(update={"labels": None})})
    with pytest.raises(InvalidInput, match="send `labels`"):
        clip.prepare(none)


def test_a_label_too_long_is_refused_by_its_name(clip: Adapter) -> None:
    with pytest.raises(InputTooLong, match=r"label 'x x .* is longer than the 77 tokens"):
        clip.prepare(label_images(FILES[:1], ["alpha", "x " * 90]))


PROCESSORS = [
    (0, {"do_flip": True}, "'do_flip' is not supported; known: crop_size"),
    (0, {"image_processor_type": "ViTImageProcessor"}, "'ViTImageProcessor' is not supported"),
    (0, {"image_processor_type": "Siglip2ImageProcessorFast"}, "is not for 'clip'"),
    (0, {"crop_size": {"height": 8, "width": 8}}, "do not come to the 16 x 16 pixels"),
    (0, {"do_center_crop": False}, "do not come to the 16 x 16 pixels"),
    (0, {"image_mean": [0.5, 0.5]}, "image_mean must be three numbers"),
    (0, {"image_std": [0.5, 0.0, 0.5]}, "image_std holds a zero"),
    (0, {"resample": 9}, "resample 9 is no filter"),
    (2, {"size": {"longest_edge": 12}}, "size .* is not supported"),
    (2, {"size": 12}, "do not come to the 12 x 12 pixels"),
    (4, {"patch_size": 8}, "patch_size 8 is not config.json's 4"),
    (4, {"max_num_patches": 0}, "max_num_patches 0"),
    (4, {"do_resize": False}, "need do_resize"),
]


@pytest.mark.parametrize(("pair", "changes", "message"), PROCESSORS)
def test_a_step_that_would_give_other_vectors_is_refused(
    pair: int, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save_pair(PAIRS[pair], tmp_path)
    change_json(tmp_path, "preprocessor_config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


TOWERS = [
    (0, {"num_channels": 4}, "num_channels must be 3"),
    (0, {"patch_size": [4, 4]}, "patch_size must be one whole number"),
    (2, {"vision_use_head": False}, "vision_use_head false is not supported"),
]


@pytest.mark.parametrize(("pair", "changes", "message"), TOWERS)
def test_a_tower_of_another_make_is_refused(
    pair: int, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save_pair(PAIRS[pair], tmp_path)
    vision = json.loads((tmp_path / "config.json").read_text())["vision_config"]
    change_json(tmp_path, "config.json", vision_config={**vision, **changes})
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_openai_s_own_file_from_before_image_processors(tmp_path: Path) -> None:
    save_pair(PAIRS[0], tmp_path)
    expected = run(load(tmp_path), encode_images(FILES[:2])).items
    settings = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 24, "crop_size": 16}
    (tmp_path / "preprocessor_config.json").unlink()
    change_json(tmp_path, "preprocessor_config.json", **settings, do_resize=True, resample=3)
    found = run(load(tmp_path), encode_images(FILES[:2])).items
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.dense.values, other.dense.values)


def test_a_processor_beside_others_in_one_file(tmp_path: Path) -> None:
    save_pair(PAIRS[2], tmp_path)
    expected = run(load(tmp_path), encode_images(FILES[:1])).items[0].dense.values
    own = (tmp_path / "preprocessor_config.json").read_text()
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(f'{{"image_processor": {own}}}')
    found = run(load(tmp_path), encode_images(FILES[:1])).items[0].dense.values
    assert np.array_equal(found, expected)


def test_without_pillow_texts_are_served_and_the_card_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_pair(PAIRS[0], tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    card = load(tmp_path).card
    assert (card.inputs, card.primitives) == (["text"], ["encode", "score"])
    assert "pip install 'sie-mcp[images]'" in card.decisions["inputs"]


def test_the_card_says_what_becomes_of_an_image(clip: Adapter, siglip: Adapter) -> None:
    assert clip.card.inputs == ["text", "image"]
    assert clip.card.primitives == ["encode", "score", "extract"]
    assert clip.card.outputs == ["classifications", "dense"]
    assert clip.card.decisions["images"].startswith("shorter side to 24, middle 16 x 16, patches")
    assert siglip.card.decisions["images"].startswith("resized to 12 x 12, patches of 4 pixels")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_bytes_scaled_in_one_pass_are_the_bits_that_their_floats_become(
    siglip: Adapter, dtype: torch.dtype
) -> None:
    (sequence,) = siglip.prepare(encode_images(FILES[:1])).sequences
    assert sequence.image is not None
    assert sequence.image.values.dtype == np.uint8  # What waits in a queue and goes to a device.
    values = torch.from_numpy(sequence.image.values)
    scale, shift = torch.linspace(0.003, 0.02, values.shape[1]), torch.full((1,), -1.7)
    # As on a card, where a pass over memory counts.
    found = torch.addcmul(shift, values, scale, out=torch.empty(values.shape, dtype=dtype))
    assert torch.equal(found, torch.addcmul(shift, values.float(), scale).to(dtype))
