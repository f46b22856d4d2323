"""CLIP and SigLIP beside transformers, where the table of parity cannot reach."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from sie_mcp.adapters import create
from sie_mcp.adapters.flat import ALIGNMENT
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.errors import ModelLoadFailed
from tests.adapters.test_tokenizer_clip import TEXTS, save_clip_tokenizer
from tests.parity.checkpoints import make_tokenizer, save, write_json
from tests.parity.row import VOCAB_SIZE, Row
from tests.parity.run import load
from tests.parity.table_of_towers import TOWERS, VISION
from tests.parity.test_parity import TOLERANCE
from tests.running import encode, encode_request
from tests.tiny import change_json, randomise

BY_NAME = {row.name: row for row in TOWERS}
CLIPS = [row for row in TOWERS if not row.fills_up]
SIGLIPS = [row for row in TOWERS if row.fills_up]
# 76, 78 and 302 tokens with CLIP's two special ones.
LONG = ["x " * 74, "x " * 76, "x " * 300]
END = VOCAB_SIZE - 1


def by_name(rows: list[Row]) -> Any:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


def features(model: Any, ids: list[int]) -> np.ndarray:
    """Return the reference's vector of one text."""
    with torch.no_grad():
        if hasattr(model, "get_text_features"):
            return model.get_text_features(torch.tensor([ids])).pooler_output[0].numpy()
        output = model(torch.tensor([ids]))
    found = output.text_embeds if "text_embeds" in output else output.pooler_output
    return found[0].numpy()


def ids_of(folder: Path, text: str, limit: int | None = None) -> list[int]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if limit is not None:
        tokenizer.enable_truncation(limit)
    return tokenizer.encode(text).ids


def tokens_of(folder: Path, texts: list[str]) -> list[list[int]]:
    """Return what runs of each text."""
    sequences = load(folder).prepare(encode_request(texts)).sequences
    return [one.input_ids.tolist() for one in sequences]


@by_name(CLIPS)
def test_a_text_that_clip_cuts_ends_with_its_last_token(row: Row, tmp_path: Path) -> None:
    """Case T20, CLIP."""
    model = save(row, "dense", tmp_path)
    found = encode(load(tmp_path), LONG)
    assert [one.truncated for one in found] == [False, True, True]
    assert [one.num_tokens for one in found] == [76, 77, 77]
    for text, one, ids in zip(LONG, found, tokens_of(tmp_path, LONG), strict=True):
        assert ids == ids_of(tmp_path, text, 77)
        assert ids[-1] == END
        assert np.abs(one.dense.values - features(model, ids)).max() <= TOLERANCE
        headless = features(model, [*ids[:-1], ids[-2]])
        assert np.abs(one.dense.values - headless).max() > 1e-2


@by_name(SIGLIPS)
def test_siglip_reads_texts_filled_up_to_all_its_positions(row: Row, tmp_path: Path) -> None:
    """Case T20, SigLIP; without the padding a short text has another vector."""
    model = save(row, "dense", tmp_path)
    texts = ["x", "morning coffee", *LONG]
    found = encode(load(tmp_path), texts)
    assert [one.truncated for one in found] == [False, False, True, True, True]
    for text, one, ran in zip(texts, found, tokens_of(tmp_path, texts), strict=True):
        ids = ids_of(tmp_path, text, 64)
        filled = ids + [0] * (64 - len(ids))
        assert ran == filled
        assert np.abs(one.dense.values - features(model, filled)).max() <= TOLERANCE
        if len(ids) < 64:
            assert np.abs(one.dense.values - features(model, ids)).max() > 1e-2


def test_a_shorter_limit_is_filled_up_all_the_same(tmp_path: Path) -> None:
    model = save(BY_NAME["siglip"], "dense", tmp_path)
    (found,) = encode(load(tmp_path), ["x " * 40], max_length=16)
    expected = features(model, ids_of(tmp_path, "x " * 40, 16) + [0] * 48)
    assert np.abs(found.dense.values - expected).max() <= TOLERANCE


@by_name(CLIPS)
def test_a_text_that_spells_out_its_end_ends_there(row: Row, tmp_path: Path) -> None:
    model = save(row, "dense", tmp_path)
    text = "alpha </s> beta </s> gamma"
    ids = ids_of(tmp_path, text)
    assert ids.count(END) == 3
    (found,) = encode(load(tmp_path), [text])
    assert np.abs(found.dense.values - features(model, ids)).max() <= TOLERANCE
    assert found.num_tokens == 3


def test_vectors_are_as_the_model_makes_them_unless_asked_for_unit_length(tmp_path: Path) -> None:
    save(BY_NAME["clip"], "dense", tmp_path)
    adapter = load(tmp_path)
    (plain,), (unit,) = encode(adapter, ["x"]), encode(adapter, ["x"], normalize=True)
    length = float(np.linalg.norm(plain.dense.values))
    assert not math.isclose(length, 1.0, abs_tol=1e-2)
    assert np.allclose(plain.dense.values / length, unit.dense.values)


def test_it_offers_vectors_of_texts_and_says_so(tmp_path: Path) -> None:
    save(BY_NAME["clip"], "dense", tmp_path)
    card = load(tmp_path).card
    assert (card.outputs, card.dims, card.max_sequence_length) == (["dense"], {"dense": 24}, 77)
    assert card.decisions["inputs"] == (
        "texts (no preprocessor_config.json, so images are not served)"
    )


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_the_tower_for_images_is_not_read(name: str, tmp_path: Path) -> None:
    save(BY_NAME[name], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    size = create.weight_bytes(recipe, torch.float32)
    whole = load_file(tmp_path / "model.safetensors")
    texts = {key: one for key, one in whole.items() if key.startswith("text_")}
    # Each begins at a multiple of what the allocator aligns to.
    exact, most = (sum(one.nbytes for one in kept.values()) for kept in (texts, whole))
    assert exact <= size < exact + ALIGNMENT * len(texts)
    assert exact < most
    expected = encode(load(tmp_path), ["x"])[0].dense.values
    save_file(texts, tmp_path / "model.safetensors")
    assert np.array_equal(encode(load(tmp_path), ["x"])[0].dense.values, expected)


@pytest.mark.parametrize(("name", "dims", "limit"), [("clip", 512, 77), ("siglip", 768, 64)])
def test_what_a_config_leaves_out_is_as_in_the_first_model(
    name: str, dims: int, limit: int, tmp_path: Path
) -> None:
    text = {"model_type": f"{name}_text_model"}
    write_json(tmp_path / "config.json", {"model_type": name, "text_config": text})
    write_json(tmp_path / "tokenizer_config.json", {"pad_token": {"content": "</s>"}})
    card = create.describe(create.read_recipe("m", tmp_path, None))
    assert (card.dims, card.max_sequence_length) == ({"dense": dims}, limit)


def save_st_clip(folder: Path, *others: str) -> np.ndarray:
    """Save a folder as sentence-transformers did for CLIP; return the reference's vectors.

    They are transformers' own: the library cannot load such a folder without one for images.
    """
    own = folder / "0_CLIPModel"
    own.mkdir()
    save_clip_tokenizer(own)
    tokenizer = CLIPTokenizer.from_pretrained(own)
    text = {**BY_NAME["clip"].config["text_config"], "vocab_size": len(tokenizer)}
    text["eos_token_id"] = tokenizer.eos_token_id
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=VISION, projection_dim=24))
    randomise(model)
    tokenizer.save_pretrained(own)
    model.save_pretrained(own)
    kinds = ("CLIPModel", *others)
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    paths = [f"{place}_{kind}" for place, kind in enumerate(kinds)]
    entries = [
        {"idx": place, "name": str(place), "path": path, "type": kind}
        for place, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]
    write_json(folder / "modules.json", entries)
    cut = {"truncation": True, "max_length": 77}
    return np.stack([features(model, tokenizer(one, **cut)["input_ids"]) for one in TEXTS])


@pytest.mark.parametrize("has_tokenizer_json", [True, False])
def test_sentence_transformers_own_folder_of_a_clip(
    has_tokenizer_json: bool, tmp_path: Path
) -> None:
    expected = save_st_clip(tmp_path)
    if not has_tokenizer_json:
        (tmp_path / "0_CLIPModel/tokenizer.json").unlink()
    adapter = load(tmp_path)
    assert adapter.card.max_sequence_length == 77
    found = [one.dense.values for one in encode(adapter, TEXTS)]
    assert np.abs(np.stack(found) - expected).max() <= TOLERANCE


def test_modules_may_follow_a_clip(tmp_path: Path) -> None:
    made = save_st_clip(tmp_path, "Dense", "Normalize")
    act = "torch.nn.modules.activation.Tanh"
    config = {"in_features": 24, "out_features": 6, "bias": False, "activation_function": act}
    (tmp_path / "1_Dense").mkdir()
    write_json(tmp_path / "1_Dense/config.json", config)
    weight = torch.randn(6, 24, generator=torch.Generator().manual_seed(0))
    save_file({"linear.weight": weight}, tmp_path / "1_Dense/model.safetensors")
    expected = np.tanh(made @ weight.numpy().T)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = [one.dense.values for one in encode(load(tmp_path), TEXTS)]
    assert np.abs(np.stack(found) - expected).max() <= TOLERANCE


UNCLEAN = "Morning, COFFEE!  x."
CLEAN = "morning coffee x"
CLEANING = [
    ("siglip", {"tokenizer_class": "SiglipTokenizer"}, CLEAN),
    ("siglip", {"tokenizer_class": "SiglipTokenizer", "do_lower_case": False}, "Morning COFFEE x"),
    ("siglip", {"tokenizer_class": "GemmaTokenizer", "do_lower_case": True}, UNCLEAN.lower()),
    ("siglip", {"tokenizer_class": "GemmaTokenizerFast"}, UNCLEAN),
    ("siglip", {"tokenizer_class": "Siglip2Tokenizer"}, UNCLEAN.lower()),
    ("siglip2", {"tokenizer_class": "GemmaTokenizer"}, UNCLEAN.lower()),
]


@pytest.mark.parametrize(("name", "settings", "read"), CLEANING)
def test_a_text_is_cleaned_as_the_family_s_tokenizer_does(
    name: str, settings: dict[str, Any], read: str, tmp_path: Path
) -> None:
    save(BY_NAME[name], "dense", tmp_path)
    tokenizer = make_tokenizer("eos")
    words = json.loads(tokenizer.to_str())
    words["normalizer"] = None
    vocabulary = words["model"]["vocab"]
    for place, word in enumerate(("Morning", "COFFEE", ",", ".", "!")):
        vocabulary[word] = vocabulary.pop(f"w{place + 50}")
    write_json(tmp_path / "tokenizer.json", words)
    change_json(tmp_path, "tokenizer_config.json", **settings)
    expected = ids_of(tmp_path, read)
    assert expected != ids_of(tmp_path, UNCLEAN) or read == UNCLEAN
    assert tokens_of(tmp_path, [UNCLEAN])[0][: len(expected) + 1] == [*expected, 0]


REFUSALS = [
    ("clip_text_model", "config.json", {"eos_token_id": 7}, "token 199, its vector is read at 7"),
    ("clip_text_model", "config.json", {"eos_token_id": [199]}, r"eos_token_id \[199\] is no id"),
    ("clip_text_model", "config.json", {"hidden_act": "gelu_10"}, "activation 'gelu_10'"),
    ("clip", "config.json", {"text_config": {"model_type": "bert"}}, "text_config of model_type"),
    ("siglip", "config.json", {"text_config": {"model_type": "clip_text_model"}}, "text_config"),
    ("siglip", "tokenizer_config.json", {"padding_side": "left"}, "padding_side"),
    ("siglip", "tokenizer_config.json", {"pad_token": None}, "names no pad_token"),
    ("siglip", "tokenizer_config.json", {"pad_token": "<pad>"}, "has no token '<pad>'"),
    ("siglip", "config.json", {"architectures": ["SiglipForTokenClassification"]}, "dense is"),
]


@pytest.mark.parametrize(("name", "file", "changes", "message"), REFUSALS)
def test_what_would_give_other_vectors_is_refused(
    name: str, file: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save(BY_NAME[name], "dense", tmp_path)
    change_json(tmp_path, file, **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_token_past_the_end_of_text_is_refused_where_the_id_says_nothing(tmp_path: Path) -> None:
    save(BY_NAME["clip-legacy"], "dense", tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.add_tokens(["photograph"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelLoadFailed, match="token 199, its vector is read at 200"):
        load(tmp_path)


def test_a_tokenizer_that_ends_no_text_is_refused(tmp_path: Path) -> None:
    save(BY_NAME["clip"], "dense", tmp_path)
    make_tokenizer("bos").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelLoadFailed, match="ends no text"):
        load(tmp_path)


def test_a_tower_without_its_projection_is_refused(tmp_path: Path) -> None:
    save(replace(BY_NAME["clip_text_model"], classes={"dense": "CLIPTextModel"}), "dense", tmp_path)
    with pytest.raises(ModelLoadFailed, match=r"lacks the weights of heads\.dense\.weight"):
        load(tmp_path)


def test_a_pipeline_that_pools_by_itself_is_refused(tmp_path: Path) -> None:
    save(replace(BY_NAME["clip"], pooling="mean"), "dense", tmp_path)
    with pytest.raises(ModelLoadFailed, match="makes its vector by itself"):
        load(tmp_path)


def test_a_task_that_it_cannot_do_is_refused(tmp_path: Path) -> None:
    save(BY_NAME["clip"], "dense", tmp_path)
    source = Source(kind="path", path=tmp_path)
    with pytest.raises(ModelLoadFailed, match="is for sparse, which is not supported: dense is"):
        load(tmp_path, Entry(name="m", tasks=("sparse",), sources=(source,)))
