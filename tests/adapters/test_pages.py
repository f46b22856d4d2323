"""What models of texts and images of pages take, refuse and report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.create import load_adapter, read_recipe, weight_bytes
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.page_models import DIMS, save_page_model
from tests.parity.test_pages import images
from tests.picture_files import PHOTOS, match_images, noise, saved
from tests.running import CPU, encode, encode_request, extract_request, load, run, score_request
from tests.tiny import change_json


@pytest.fixture(scope="module")
def colpali(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("colpali")
    save_page_model("colpali", folder)
    return load(folder)


@pytest.fixture(scope="module")
def colqwen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("colqwen")
    save_page_model("colqwen2", folder)
    return load(folder)


def test_the_card_says_what_is_read_and_given(colpali: Any) -> None:
    card = colpali.card
    assert card.inputs == ["text", "image"] and card.outputs == ["multivector", "muvera"]
    assert card.primitives == ["encode", "score"] and card.dims["multivector"] == DIMS
    assert card.max_sequence_length == 256 and card.packed is False
    assert "ColPaliForRetrieval" in card.decisions["architecture"]


def test_a_broken_image_fails_alone(colpali: Any) -> None:
    good, bad = run(colpali, images([PHOTOS[0], b"no picture"])).items
    assert good.multivector is not None and good.error is None
    assert bad.error.code == "INVALID_IMAGE" and bad.multivector is None
    scores = run(colpali, match_images("a", [b"no picture", PHOTOS[0]])).scores
    assert [one.index for one in scores] == [1, 0] and scores[1].error.code == "INVALID_IMAGE"


def test_an_image_that_the_processor_cannot_read_fails_alone(colqwen: Any) -> None:
    good, bad = run(colqwen, images([PHOTOS[0], saved(noise(1, 300))])).items
    assert good.error is None and bad.error.code == "INVALID_IMAGE"
    assert "cannot read the image" in bad.error.message


def test_an_image_of_more_tokens_than_the_model_reads_fails_alone(tmp_path: Path) -> None:
    save_page_model("colqwen2", tmp_path)
    change_json(
        tmp_path, "config.json", vlm_config=_with_positions(tmp_path, max_position_embeddings=66)
    )
    adapter = load(tmp_path)
    small, large = run(adapter, images([saved(noise(24, 24)), saved(noise(64, 64))])).items
    assert small.error is None and "66; send it smaller" in large.error.message


def _with_positions(folder: Path, **changes: Any) -> dict[str, Any]:
    config = read_recipe("tiny", folder, None).config["vlm_config"]
    return {**config, "text_config": {**config["text_config"], **changes}}


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (lambda: extract_request(["a"], ["b"]), "it can encode and score"),
        (lambda: encode_request(["a"], is_query=False), "queries as texts and documents as images"),
        (lambda: images(PHOTOS[:1], is_query=True), "queries as texts and documents as images"),
        (lambda: score_request("a", ["b"]), "queries as texts and documents as images"),
        (lambda: score_request("a", ["b"], instruction="c"), "takes no instruction"),
        (lambda: encode_request(["a"], "dense"), "has no dense output; it has: multivector"),
        (lambda: encode_request(["a"], lora="x/y"), "has no option lora"),
        (lambda: encode_request(["a"], prompt_name="query"), "has no option prompt_name"),
        (lambda: encode_request(["a"], dimensions=17), "dimensions 17 is over tiny's 16"),
        (lambda: encode_request(["a"], max_length=300), "max_length 300 is over"),
        (lambda: encode_request(["a <image> b"]), "stands for an image; leave it out"),
    ],
)
def test_what_it_cannot_do_is_refused(colpali: Any, request_of, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        colpali.prepare(request_of())


def test_a_long_query_is_cut_before_what_it_is_filled_up_with(colpali: Any) -> None:
    (whole,) = encode(colpali, ["ab cd"])
    (cut,) = encode(colpali, ["ab cd ef"], max_length=whole.num_tokens)
    assert cut.truncated and not whole.truncated and cut.num_tokens == whole.num_tokens
    assert np.array_equal(cut.multivector.values, whole.multivector.values)
    with pytest.raises(InputTooLong, match="split it or allow truncation"):
        colpali.prepare(encode_request(["ab " * 200], truncate=False))
    (long,) = encode(colpali, ["ab " * 200])
    assert long.truncated and long.num_tokens == 256


def test_pages_beside_their_query_are_compared_in_the_batch(colqwen: Any) -> None:
    request = match_images("a", PHOTOS[:2])
    prepared = colqwen.prepare(request)
    with torch.inference_mode():
        batch = pack(prepared.sequences, CPU)
        together = unpack(colqwen.forward(batch), 3)
        prepared = colqwen.prepare(request)  # Another question, which no batch has read.
        pages = unpack(colqwen.forward(pack(prepared.sequences[1:], CPU)), 2)
    assert [len(one["multivector"]) > 0 for one in (*together, *pages)] == [
        True,
        False,
        False,
        True,
        True,
    ]
    answers = [
        colqwen.finish(request, prepared, [together[0], *two]).scores
        for two in (together[1:], pages)
    ]
    first, second = ([one.score for one in answer] for answer in answers)
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_fewer_dimensions_are_of_unit_length(colpali: Any) -> None:
    (cut,) = encode(colpali, ["ab"], dimensions=4, normalize=True)
    assert cut.multivector.values.shape[1] == 4
    assert np.linalg.norm(cut.multivector.values, axis=1) == pytest.approx(1, abs=1e-5)


def test_fixed_size_vectors_are_made_by_what_an_item_is(colpali: Any) -> None:
    items = [{"text": "who wrote it"}, {"image": PHOTOS[0]}]
    muvera = {"repetitions": 4, "num_bits": 3, "dims": DIMS}
    request = wire.EncodeRequest.model_validate(
        {"items": items, "params": {"output_types": ["muvera"], "options": {"muvera": muvera}}}
    )
    query, page = (one.muvera.values for one in run(colpali, request).items)
    cells = page.reshape(4, 8, DIMS)
    assert np.all(np.linalg.norm(cells, axis=2) > 0), "no cell of a document stays empty"
    assert np.linalg.norm(query.reshape(4, 8, DIMS), axis=2).max() > 1.0, "queries are summed"


def test_weights_take_what_was_said_and_can_leave_and_come_back(tmp_path: Path) -> None:
    save_page_model("colmodernvbert", tmp_path)
    recipe = read_recipe("tiny", tmp_path, None)
    adapter = load_adapter(recipe, device=CPU, dtype=torch.bfloat16)
    weights = adapter.weights
    assert weights.size_bytes <= 1.2 * weight_bytes(recipe, torch.bfloat16)
    before = run(adapter, images(PHOTOS[:1])).items[0].multivector.values
    pages = [torch.empty(weights.size_bytes, dtype=torch.uint8)]
    weights.stage(pages)
    weights.leave()
    weights.enter(CPU, pages)
    assert np.array_equal(run(adapter, images(PHOTOS[:1])).items[0].multivector.values, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"auto_map": {"AutoModel": "evil.Evil"}}, "code of its own"),
        ({"embedding_dim": 24}, "cannot load it|describes"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path, change, message) -> None:
    save_page_model("colpali", tmp_path)
    change_json(tmp_path, "config.json", **change)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)
