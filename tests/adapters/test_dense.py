"""Dense vectors through the door that the engine uses: files in, vectors out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import BertModel

from sie_mcp import wire
from sie_mcp.adapters.muvera import fixed_size
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.errors import (
    InferenceError,
    InputTooLong,
    InvalidInput,
    ModelLoadFailed,
    NonFiniteOutput,
)
from tests.running import CPU, dense, encode, encode_request, load, run
from tests.tiny import (
    HIDDEN_SIZE,
    MAX_LENGTH,
    NEW_TYPES,
    OLD_TYPES,
    bert_config,
    change_json,
    save_model,
    write_json,
    write_modules,
)

TEXTS = ["alpha beta gamma", "alpha"]
OLD_FLAGS = {
    "word_embedding_dimension": HIDDEN_SIZE,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": False,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_sqrt_len_tokens": False,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertModel(bert_config()))
    return tmp_path


def _old(folder: Path, **flags: Any) -> Path:
    modules = [("Transformer", None), ("Pooling", OLD_FLAGS | flags)]
    write_modules(folder, modules, OLD_TYPES)
    return folder


def _new(folder: Path, *rest: tuple[str, Any], **pooling: Any) -> Path:
    pooling = {"embedding_dimension": HIDDEN_SIZE, "pooling_mode": "mean"} | pooling
    write_modules(folder, [("Transformer", None), ("Pooling", pooling), *rest], NEW_TYPES)
    return folder


def _first_token(folder: Path, texts: list[str]) -> np.ndarray:
    model = BertModel.from_pretrained(folder)
    sequences = load(folder).prepare(encode_request(texts)).sequences
    with torch.no_grad():
        rows = [model(torch.from_numpy(one.input_ids)[None])[0][0, 0] for one in sequences]
    return torch.stack(rows).numpy()


def test_both_dialects_of_pooling_are_read_alike(folder: Path) -> None:
    old = dense(load(_old(folder, pooling_mode_cls_token=True)), TEXTS)
    new = dense(load(_new(folder, pooling_mode="cls", include_prompt=True)), TEXTS)
    mean = dense(load(_new(folder)), TEXTS)
    assert np.array_equal(old, new)
    np.testing.assert_allclose(old, _first_token(folder, TEXTS), atol=1e-5, rtol=0)
    assert np.abs(old - mean).max() > 1e-2


def test_an_unknown_pooling_mode_is_an_error_with_file_key_and_value(folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"1_Pooling/config\.json.*pooling_mode.*'first'"):
        load(_new(folder, pooling_mode="first"))


def test_legacy_flags_concatenate_in_their_fixed_order(folder: Path) -> None:
    """Case T02, the old dialect: cls first, whatever the order of the flags."""
    adapter = load(_old(folder, pooling_mode_mean_tokens=True, pooling_mode_cls_token=True))
    assert adapter.card.dims["dense"] == 2 * HIDDEN_SIZE
    both = dense(adapter, TEXTS)
    cls = dense(load(_old(folder, pooling_mode_cls_token=True)), TEXTS)
    mean = dense(load(_old(folder, pooling_mode_mean_tokens=True)), TEXTS)
    np.testing.assert_allclose(both, np.hstack([cls, mean]), atol=1e-6)


def test_a_list_of_modes_concatenates_in_its_own_order(folder: Path) -> None:
    """Case T02, the new dialect."""
    adapter = load(_new(folder, pooling_mode=["mean", "cls"]))
    assert adapter.card.dims["dense"] == 2 * HIDDEN_SIZE
    cls, mean = (
        dense(load(_new(folder, pooling_mode="cls")), TEXTS),
        dense(load(_new(folder)), TEXTS),
    )
    np.testing.assert_allclose(dense(adapter, TEXTS), np.hstack([mean, cls]), atol=1e-6)


def test_fewer_dimensions_are_the_first_ones_at_unit_length_again(folder: Path) -> None:
    adapter = load(_new(folder, ("Normalize", {})))
    full, cut = dense(adapter, TEXTS), dense(adapter, TEXTS, dimensions=16)
    expected = full[:, :16] / np.linalg.norm(full[:, :16], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, expected, atol=1e-6)


def test_more_dimensions_than_there_are_is_an_error_with_both_numbers(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=f"65.*{HIDDEN_SIZE}"):
        load(_new(folder)).prepare(encode_request(TEXTS, dimensions=65))


@pytest.mark.parametrize("ends_in_normalize", [True, False])
def test_the_caller_may_decide_on_unit_length(folder: Path, ends_in_normalize: bool) -> None:
    adapter = load(_new(folder, *([("Normalize", {})] if ends_in_normalize else [])))
    norms = {
        wish: np.linalg.norm(dense(adapter, TEXTS, normalize=wish), axis=1)
        for wish in (True, False, None)
    }
    np.testing.assert_allclose(norms[True], 1.0, atol=1e-6)
    assert np.abs(norms[False] - 1.0).min() > 0.1
    np.testing.assert_allclose(norms[None], norms[ends_in_normalize])


def _vectors(folder: Path, dtype: str) -> list[wire.Dense]:
    request = encode_request(TEXTS)
    request.params.output_dtype = dtype
    return [item.dense for item in run(load(_new(folder)), request).items]


def test_bits_are_packed_most_significant_first(folder: Path) -> None:
    plain = np.stack([one.values for one in _vectors(folder, "float32")])
    bits = np.packbits(plain > 0, axis=1)
    packed = _vectors(folder, "ubinary")
    assert [one.dims for one in packed] == [HIDDEN_SIZE] * 2
    assert np.array_equal(np.stack([one.values for one in packed]), bits)
    signed = np.stack([one.values for one in _vectors(folder, "binary")])
    assert signed.dtype == np.int8
    assert np.array_equal(signed.astype(int), bits.astype(int) - 128)


def test_float16_is_the_rounded_float32(folder: Path) -> None:
    plain, half = _vectors(folder, "float32"), _vectors(folder, "float16")
    assert half[0].values.dtype == np.float16
    assert np.array_equal(half[0].values, plain[0].values.astype(np.float16))


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 128)])
def test_whole_numbers_come_with_their_scale(folder: Path, dtype: str, zero: int) -> None:
    for plain, whole in zip(_vectors(folder, "float32"), _vectors(folder, dtype), strict=True):
        assert whole.values.dtype == np.dtype(dtype)
        back = whole.scale * (whole.values.astype(np.float32) - zero)
        assert np.abs(back - plain.values).max() <= whole.scale / 2 + 1e-6


def test_ranges_must_fit_the_dimensions_asked_for(folder: Path) -> None:
    adapter = load(_new(folder))
    params = {
        "output_dtype": "int8",
        "options": {"dimensions": 4, "quantization_ranges": [[-1] * 4, [1] * 4]},
    }
    request = wire.EncodeRequest.model_validate({"items": [{"text": "a"}], "params": params})
    vector = run(adapter, request).items[0].dense
    assert (vector.dims, vector.scale, vector.values.dtype) == (4, None, np.int8)
    params["options"]["dimensions"] = 5
    with pytest.raises(InvalidInput, match="need 5 numbers in each row"):
        adapter.prepare(
            wire.EncodeRequest.model_validate({"items": [{"text": "a"}], "params": params})
        )


def test_token_vectors_come_in_a_fixed_size_too(folder: Path) -> None:
    adapter = load(_new(folder))
    options = {"muvera": {"repetitions": 2, "num_bits": 3, "dims": 4}, "is_query": True}
    params = {"output_types": ["muvera", "multivector"], "options": options}
    request = wire.EncodeRequest.model_validate({"items": [{"text": "a b"}], "params": params})
    item = run(adapter, request).items[0]
    form = fixed_size(
        item.multivector.values, wire.MuveraOptions(**options["muvera"]), is_query=True
    )
    assert item.muvera.dims == 2 * 8 * 4
    assert np.array_equal(item.muvera.values, form)
    options["muvera"]["dims"] = HIDDEN_SIZE + 1
    with pytest.raises(InvalidInput, match=rf"is over the {HIDDEN_SIZE} of a token vector"):
        adapter.prepare(
            wire.EncodeRequest.model_validate({"items": [{"text": "a"}], "params": params})
        )


def test_truncation_is_told_for_each_item_with_true_counts(folder: Path) -> None:
    adapter = load(_new(folder))
    items = encode(adapter, ["one two", "alpha " * 300], "dense")
    assert [(item.num_tokens, item.truncated) for item in items] == [(4, False), (MAX_LENGTH, True)]
    items = encode(adapter, ["one two", "alpha " * 30], "dense", max_length=16)
    assert [(item.num_tokens, item.truncated) for item in items] == [(4, False), (16, True)]


def test_a_refused_truncation_names_item_and_limit(folder: Path) -> None:
    with pytest.raises(InputTooLong, match=rf"items\[1\].*{MAX_LENGTH} tokens"):
        load(_new(folder)).prepare(encode_request(["one", "alpha " * 300], truncate=False))


def test_a_longer_limit_than_the_model_has_is_an_error(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=f"max_length 129.*{MAX_LENGTH}"):
        load(_new(folder)).prepare(encode_request(TEXTS, max_length=129))


def test_a_sequence_that_failed_gives_its_error_to_its_item_alone(folder: Path) -> None:
    adapter = load(_new(folder))
    request = encode_request(["alpha", "beta", "gamma"])
    prepared = adapter.prepare(request)
    with torch.inference_mode():
        outputs: list[Any] = list(unpack(adapter.forward(pack(prepared.sequences, CPU)), 3))
    outputs[1] = InferenceError("the forward pass failed")
    outputs[2]["dense"][0, 5] = np.nan
    items = adapter.finish(request, prepared, outputs).items
    assert items[0].error is None
    assert items[0].dense is not None
    assert [item.dense for item in items[1:]] == [None, None]
    assert [item.error.code for item in items[1:]] == [InferenceError.code, NonFiniteOutput.code]
    assert "not finite" in items[2].error.message


def test_weights_that_are_not_finite_do_not_load(folder: Path) -> None:
    model = BertModel(bert_config())
    model.embeddings.LayerNorm.weight.data[3] = float("inf")
    model.save_pretrained(folder)
    with pytest.raises(ModelLoadFailed, match="not finite"):
        load(_new(folder))


def test_a_projection_that_does_not_fit_does_not_load(folder: Path) -> None:
    config = {"in_features": 32, "out_features": 16, "bias": True}
    folder = _new(folder, ("Dense", config))
    torch_linear = torch.nn.Linear(32, 16)
    _save_linear(folder / "2_Dense", torch_linear)
    with pytest.raises(ModelLoadFailed, match=r"2_Dense.*32.*64"):
        load(folder)


def test_a_projection_without_weights_does_not_load(folder: Path) -> None:
    """Case T09, a file that is missing."""
    config = {"in_features": HIDDEN_SIZE, "out_features": 16, "bias": True}
    with pytest.raises(ModelLoadFailed, match=r"2_Dense has no weights.*model\.safetensors"):
        load(_new(folder, ("Dense", config)))


def test_an_output_that_the_model_lacks_is_an_error_with_those_it_has(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no sparse output; it has: dense, multivector"):
        load(_new(folder)).prepare(encode_request(TEXTS, "sparse"))


def test_a_model_that_encodes_does_not_extract(folder: Path) -> None:
    request = wire.ExtractRequest(items=[wire.Item(text="alpha")])
    with pytest.raises(InvalidInput, match="cannot extract"):
        load(_new(folder)).prepare(request)


def test_the_listing_says_which_file_decided(folder: Path) -> None:
    change_json(folder, "sentence_bert_config.json", max_seq_length=32)
    write_json(folder, "config_sentence_transformers.json", {"prompts": {"query": "q: "}})
    card = load(_new(folder, ("Normalize", {}))).card
    assert card.dims == {"dense": HIDDEN_SIZE, "multivector": HIDDEN_SIZE, "muvera": 10_240}
    assert card.max_sequence_length == 32
    assert card.decisions["pooling"] == "mean (1_Pooling/config.json)"
    assert card.decisions["max_length"] == "32 (sentence_bert_config.json)"
    assert card.decisions["normalize"] == "True (modules.json)"


def _save_linear(folder: Path, linear: torch.nn.Linear) -> None:
    save_file(
        {f"linear.{k}": v for k, v in linear.state_dict().items()}, folder / "model.safetensors"
    )
