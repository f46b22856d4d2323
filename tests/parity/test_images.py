"""Towers for images beside transformers': the same vectors, scores and labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.image_labels import TEMPLATE
from tests.parity.image_towers import (
    FILES,
    PAIRS,
    TEXTS,
    Pair,
    expected_vectors,
    furthest,
    save_pair,
    vectors,
)
from tests.parity.run import load
from tests.parity.test_parity import TOLERANCE
from tests.picture_files import encode_images, label_images, match_images
from tests.running import dense, run, score_request

each = pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
each_family = pytest.mark.parametrize(
    "pair", [PAIRS[0], PAIRS[2], PAIRS[4]], ids=["clip", "siglip", "siglip2"]
)


def logits(pair: Pair, model: torch.nn.Module, texts: list[str], folder: Path) -> np.ndarray:
    """Return the reference's logits of images and texts, `(num_files, num_texts)`."""
    found = torch.from_numpy(expected_vectors(pair, model, FILES))
    own = torch.from_numpy(text_vectors(model, texts, folder, fills_up=pair.row != "clip"))
    found, own = (one / one.norm(dim=-1, keepdim=True) for one in (found, own))
    bias = getattr(model, "logit_bias", torch.zeros(1))
    return (found @ own.T * model.logit_scale.exp() + bias).detach().numpy()


def text_vectors(
    model: torch.nn.Module, texts: list[str], folder: Path, *, fills_up: bool
) -> np.ndarray:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if fills_up:
        tokenizer.enable_padding(length=64, pad_id=0, pad_token="[PAD]")
    rows = [torch.tensor([tokenizer.encode(text).ids]) for text in texts]
    with torch.no_grad():
        return np.stack([model.get_text_features(row).pooler_output[0].numpy() for row in rows])


@each
def test_an_image_s_vector_is_the_reference_s(pair: Pair, tmp_path: Path) -> None:
    assert furthest(pair, tmp_path) <= TOLERANCE


@each
def test_a_vector_does_not_depend_on_its_neighbours(pair: Pair, tmp_path: Path) -> None:
    save_pair(pair, tmp_path)
    adapter = load(tmp_path)
    together = vectors(adapter, FILES)
    alone = np.concatenate([vectors(adapter, [one]) for one in FILES])
    assert np.abs(together - alone).max() <= TOLERANCE
    order = list(reversed(range(len(FILES))))
    turned = run(adapter, encode_images(FILES), order=order).items
    assert np.abs(np.stack([one.dense.values for one in turned]) - together).max() <= TOLERANCE
    # The pictures differ, so that a vector of the wrong one would be seen.
    assert (
        np.abs(together[:, None] - together).max(-1)[~np.eye(len(FILES), dtype=bool)].min() > 1e-3
    )


@each_family
def test_its_texts_have_the_vectors_that_they_have_without_images(
    pair: Pair, tmp_path: Path
) -> None:
    model = save_pair(pair, tmp_path)
    with_images = load(tmp_path)
    found = dense(with_images, TEXTS)
    expected = text_vectors(model, TEXTS, tmp_path, fills_up=pair.row != "clip")
    assert np.abs(found - expected).max() <= TOLERANCE
    size = create.weight_bytes(create.read_recipe("m", tmp_path, None), torch.float32)
    (tmp_path / "preprocessor_config.json").unlink()
    alone = load(tmp_path)
    assert np.array_equal(dense(alone, TEXTS), found)
    assert (with_images.card.inputs, alone.card.inputs) == (["text", "image"], ["text"])
    assert create.weight_bytes(create.read_recipe("m", tmp_path, None), torch.float32) < size


@each_family
def test_texts_and_images_are_scored_as_the_reference_does(pair: Pair, tmp_path: Path) -> None:
    model = save_pair(pair, tmp_path)
    adapter = load(tmp_path)
    for place, expected in enumerate(logits(pair, model, TEXTS, tmp_path).T):
        response = run(adapter, match_images(TEXTS[place], FILES, raw_scores=True))
        assert response.score_type == "logit"
        assert np.abs(scores_of(response) - expected).max() <= TOLERANCE
        plain = run(adapter, match_images(TEXTS[place], FILES))
        is_probability = pair.row != "clip"
        assert plain.score_type == ("probability" if is_probability else "logit")
        wanted = 1 / (1 + np.exp(-expected)) if is_probability else expected
        assert np.abs(scores_of(plain) - wanted).max() <= TOLERANCE
        # The other way round: an image asks for texts.
        turned = score_request("", TEXTS).model_copy(
            update={"query": match_images("", FILES).items[0]}
        )
        assert abs(scores_of(run(adapter, turned))[place] - wanted[0]) <= TOLERANCE


def scores_of(response) -> np.ndarray:
    return np.array([one.score for one in sorted(response.scores, key=lambda one: one.index)])


@each_family
def test_labels_of_an_image_are_those_of_the_reference(pair: Pair, tmp_path: Path) -> None:
    model = save_pair(pair, tmp_path)
    adapter = load(tmp_path)
    for template in (None, "the {} x"):
        sentences = [(template or TEMPLATE).replace("{}", label) for label in TEXTS]
        expected = torch.from_numpy(logits(pair, model, sentences, tmp_path))
        is_alone = pair.row != "clip"
        wanted = torch.sigmoid(expected) if is_alone else torch.softmax(expected, dim=-1)
        for raw, numbers in ((False, wanted), (True, expected)):
            request = label_images(FILES, TEXTS, hypothesis_template=template, raw_scores=raw)
            assert_labels(adapter, request, numbers.numpy())


def assert_labels(adapter: Adapter, request, expected: np.ndarray) -> None:
    for item, row in zip(run(adapter, request).items, expected, strict=True):
        found = {one.label: one.score for one in item.classifications}
        assert max(abs(found[label] - row[place]) for place, label in enumerate(TEXTS)) <= TOLERANCE
        assert list(found) == sorted(TEXTS, key=lambda label: -row[TEXTS.index(label)])
