"""Models that compare texts with images of pages against transformers' own classes."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from sie_mcp import wire
from sie_mcp.adapters.pictures import open_picture
from tests.parity.page_models import PAGE_MODELS, save_page_model
from tests.picture_files import PHOTOS, match_images, noise, saved
from tests.running import encode, load, run

FILES = (*PHOTOS[:2], saved(noise(31, 90)), saved(noise(64, 64, seed=2)), saved(noise(90, 31)))
TEXTS = ("hello world", "who wrote it", "a", "what is the subset of the machine and who", "")
TOLERANCE = 1e-4


def images(files: Any, **options: Any) -> wire.EncodeRequest:
    """Ask for the token vectors of images."""
    items = [{"image": one} for one in files]
    params = {"output_types": ["multivector"], "options": options}
    return wire.EncodeRequest.model_validate({"items": items, "params": params})


def expected_query(model: Any, processor: Any, text: str) -> np.ndarray:
    inputs = processor.process_queries([text])
    with torch.no_grad():
        return model(**inputs).embeddings[0].numpy()


def expected_page(model: Any, processor: Any, file: bytes) -> np.ndarray:
    """Return the reference's vectors; with positions of two directions where it has them.

    ColQwen2's class runs its parts one by one and leaves those positions out, which Qwen2-VL as a
    whole computes, and did when such models were trained.
    """
    inputs = processor.process_images([open_picture(file)])
    inputs.pop("labels", None)
    with torch.no_grad():
        if "image_grid_thw" not in inputs:
            return model(**inputs).embeddings[0].numpy()
        inputs["pixel_values"] = inputs["pixel_values"][0]
        kinds = (inputs["input_ids"] == processor.image_token_id).int()
        states = model.vlm(**inputs, mm_token_type_ids=kinds).last_hidden_state
        model.vlm.rope_deltas = None
        return functional.normalize(model.embedding_proj_layer(states), dim=-1)[0].numpy()


@pytest.mark.parametrize("kind", PAGE_MODELS)
def test_vectors_are_those_of_the_reference_in_any_batch(kind, tmp_path):
    model, processor = save_page_model(kind, tmp_path)
    adapter = load(tmp_path)
    request = images(FILES)
    together, turned = run(adapter, request), run(adapter, request, order=range(len(FILES))[::-1])
    for file, one, other in zip(FILES, together.items, turned.items, strict=True):
        alone = run(adapter, images([file])).items[0]
        expected = expected_page(model, processor, file)
        for found in (one, other, alone):
            assert found.error is None and found.num_tokens == len(expected)
            assert np.abs(found.multivector.values - expected).max() <= TOLERANCE
    for text, one in zip(TEXTS, encode(adapter, TEXTS), strict=True):
        alone = encode(adapter, [text])[0]
        expected = expected_query(model, processor, text)
        for found in (one, alone):
            assert found.multivector.values.shape == expected.shape
            assert np.abs(found.multivector.values - expected).max() <= TOLERANCE


@pytest.mark.parametrize("kind", PAGE_MODELS)
def test_scores_are_the_reference_s_late_interaction(kind, tmp_path):
    model, processor = save_page_model(kind, tmp_path)
    adapter = load(tmp_path)
    query = torch.from_numpy(expected_query(model, processor, TEXTS[1]))
    pages = [torch.from_numpy(expected_page(model, processor, one)) for one in FILES]
    # One by one: the reference fills pages up with zeros, which can be the best match.
    expected = [float(processor.score_retrieval([query], [one])[0, 0]) for one in pages]
    found = run(adapter, match_images(TEXTS[1], FILES))
    assert found.score_type == "similarity"
    for one in found.scores:
        assert one.score == pytest.approx(expected[one.index], abs=len(query) * TOLERANCE)
    assert [one.index for one in found.scores] == list(np.argsort(-np.array(expected)))
    assert np.ptp(expected) > 0.1, "pages that are all alike prove nothing"
