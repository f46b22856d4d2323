"""Models that transformers runs: blocks, masks, sizes, and what is refused."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto import configuration_auto

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.models import transformers_model
from sie_mcp.catalogue.entries import Entry
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import make_tokenizer, save, write_json
from tests.parity.run import CPU, load, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TOLERANCE, request_for
from tests.tiny import change_json

BY_NAME = {row.name: row for row in ROWS}
ALBERT = BY_NAME["albert"]


def vectors(adapter, texts):
    response, _ = run(adapter, request_for("dense", texts))
    return np.stack([item.dense.values for item in response.items])


def lengths_of_blocks(adapter, texts):
    """Return the shape of every block that the library is given."""
    shapes = []
    module = adapter._model.encoder.module
    hook = module.register_forward_pre_hook(
        lambda _, __, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    vectors(adapter, texts)
    hook.remove()
    return shapes


def test_every_family_that_is_padded_has_its_row_of_parity():
    held = {row.name for row in ROWS if not (row.packed or row.sees_padding)}
    assert held == transformers_model.LOOK_PAST_PADDING
    known = configuration_auto.CONFIG_MAPPING_NAMES
    assert held <= known.keys()
    assert known.keys() >= transformers_model._POSITIONS_PAST_PADDING


def test_similar_lengths_share_a_block_only_where_padding_changes_nothing(tmp_path):
    texts = ["alpha " * 9, "beta " * 10, "gamma " * 10, "river"]
    for name, expected in (("albert", [(3, 12), (1, 3)]), ("fnet", [(2, 12), (1, 11), (1, 3)])):
        save(BY_NAME[name], "dense", tmp_path / name)
        assert lengths_of_blocks(load(tmp_path / name), texts) == expected


def test_padding_would_change_the_families_that_get_none(tmp_path):
    """The control: such a family in padded blocks gives other vectors."""
    save(BY_NAME["convbert"], "dense", tmp_path)
    adapter = load(tmp_path)
    texts = ["alpha beta gamma river " * 2, "beta " * 9]
    right = vectors(adapter, texts)
    adapter._model.encoder.min_fill = 0.8
    assert np.abs(vectors(adapter, texts) - right)[0].max() > 1e-3


def test_it_is_said_once_that_a_model_is_not_packed(tmp_path, caplog):
    save(ALBERT, "dense", tmp_path)
    with caplog.at_level(logging.INFO, logger="sie_mcp"):
        card = load(tmp_path).card
    (record,) = [one for one in caplog.records if "not packed" in one.message]
    assert "model_type=albert blocks=padded" in record.message
    assert card.packed is False
    version = transformers.__version__
    assert card.decisions["architecture"].startswith(f"transformers {version}, not packed (")


def test_query_expansion_that_nobody_attends_to_is_hidden_by_the_mask(tmp_path):
    settings = {"model_type": "ColBERT", "query_prefix": "", "query_length": 8}
    for name in ("albert", "fnet"):
        folder = tmp_path / name
        reference = save(BY_NAME[name], "dense", folder)
        modules = [{"idx": 0, "path": "", "type": "pylate.models.Transformer"}]
        write_json(folder / "modules.json", modules)
        write_json(
            folder / "config_sentence_transformers.json",
            settings | {"attend_to_expansion_tokens": False, "query_prefix": "alpha "},
        )
        if name == "fnet":
            with pytest.raises(ModelLoadFailed, match="must be hidden by an attention mask"):
                load(folder)
            continue
        adapter = load(folder)
        params = {"output_types": ["multivector"], "options": {"is_query": True}}
        request = wire.EncodeRequest.model_validate({"items": [{"text": "beta"}], "params": params})
        (item,) = run(adapter, request)[0].items
        ids = torch.tensor([[1, 5, 6, 2, 4, 4, 4, 4]])
        mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]])
        with torch.no_grad():
            hidden = reference(input_ids=ids, attention_mask=mask).last_hidden_state[0]
        expected = torch.nn.functional.normalize(hidden, dim=-1).numpy()
        assert np.abs(item.multivector.values - expected).max() <= TOLERANCE


def test_projections_stand_on_the_library_s_encoder_too(tmp_path):
    save(ALBERT, "dense", tmp_path)
    plain = vectors(load(tmp_path), ["alpha beta"])
    modules = [
        {"idx": 0, "path": "", "type": "x.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "x.Pooling"},
        {"idx": 2, "path": "2_Dense", "type": "x.Dense"},
    ]
    write_json(tmp_path / "modules.json", modules)
    (tmp_path / "2_Dense").mkdir()
    weight, bias = torch.randn(8, 32), torch.randn(8)
    tensors = {"linear.weight": weight, "linear.bias": bias}
    save_file(tensors, tmp_path / "2_Dense/model.safetensors")
    write_json(tmp_path / "2_Dense/config.json", {"in_features": 32, "out_features": 8})
    expected = torch.tanh(torch.from_numpy(plain) @ weight.T + bias).numpy()
    assert np.abs(vectors(load(tmp_path), ["alpha beta"]) - expected).max() <= TOLERANCE
    recipe = create.read_recipe("m", tmp_path, None)
    tensors = load_file(tmp_path / "model.safetensors")
    stored = sum(one.numel() for one in tensors.values()) + 8 * 33
    planned = create.weight_bytes(recipe, torch.float32)
    assert 0 <= planned - 4 * stored <= 256 * (len(tensors) + 2)
    assert 4 * stored <= load(tmp_path).weights.size_bytes <= planned


@pytest.mark.parametrize("name", ["bart", "mt5"])
def test_of_an_encoder_decoder_only_half_is_counted_and_kept(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CPU, dtype=torch.float32)
    kept = sum(one.numel() for one in adapter._model.encoder.parameters())
    stored = load_file(tmp_path / "model.safetensors")
    assert kept < sum(one.numel() for one in stored.values())
    for dtype in (torch.float32, torch.bfloat16):
        padding = create.weight_bytes(recipe, dtype) - kept * dtype.itemsize
        assert 0 <= padding <= 256 * len(stored)
    assert adapter.card.decisions["half"] == "encoder (vectors of an encoder-decoder)"


def test_weights_in_pytorch_s_own_file_give_the_same_vectors(tmp_path):
    save(ALBERT, "dense", tmp_path)
    before = vectors(load(tmp_path), ["alpha beta"])
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    assert np.array_equal(vectors(load(tmp_path), ["alpha beta"]), before)


def test_weights_must_fit_the_config(tmp_path):
    """The library alone would make up what is missing and drop what is too much."""
    save(ALBERT, "dense", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(one for one in tensors if one.endswith("ffn.weight"))

    def with_tensors(changed):
        save_file(changed, tmp_path / "model.safetensors")
        with pytest.raises(ModelLoadFailed) as caught:
            load(tmp_path)
        return str(caught.value)

    assert f"lacks the weights of {name}" in with_tensors(
        {key: value for key, value in tensors.items() if key != name}
    )
    surplus = name.replace("albert_layer_groups.0", "albert_layer_groups.1")
    assert f"{surplus} has no place" in with_tensors(tensors | {surplus: tensors[name].clone()})
    assert "transformers cannot load it" in with_tensors(tensors | {name: torch.zeros(3, 3)})
    nan = torch.full_like(tensors[name], float("nan"))
    assert "is not finite" in with_tensors(tensors | {name: nan})


def test_a_head_that_was_not_trained_is_refused(tmp_path):
    save(ALBERT, "dense", tmp_path)
    (tmp_path / "modules.json").unlink()
    change_json(
        tmp_path, "config.json", architectures=["AlbertForSequenceClassification"], num_labels=1
    )
    change_json(tmp_path, "config.json", id2label={"0": "x"})
    with pytest.raises(ModelLoadFailed, match=r"lacks the weights of classifier"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "tasks", "message"),
    [
        ("mt5", ["sparse"], "sparse vectors of a decoder are not served"),
        ("gpt2", ["sparse"], "is for sparse, for which transformers .* has no class"),
        ("albert", ["dense", "sparse"], "dense, sparse cannot be served at once"),
    ],
)
def test_a_task_that_the_library_has_no_class_for_is_refused(name, tasks, message, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    source = {"kind": "path", "path": str(tmp_path)}
    entry = Entry.model_validate({"name": "m", "tasks": tasks, "sources": [source]})
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path, entry)


def test_token_types_go_to_the_model_as_its_tokenizer_says(tmp_path):
    """Without model_input_names, to those that have several types; GPT-2 would add word vectors."""
    save(BY_NAME["albert"], "dense", tmp_path)
    assert load(tmp_path)._model.encoder.has_token_types
    names = {"model_input_names": ["input_ids", "attention_mask"]}
    write_json(tmp_path / "tokenizer_config.json", names)
    assert not load(tmp_path)._model.encoder.has_token_types
    save(BY_NAME["gpt2"], "dense", tmp_path / "gpt2")
    assert not load(tmp_path / "gpt2")._model.encoder.has_token_types


def test_a_model_at_its_length_limit_runs(tmp_path):
    row = BY_NAME["data2vec-text"]
    save(row, "dense", tmp_path)
    adapter = load(tmp_path)
    assert adapter.card.max_sequence_length == 158
    response, _ = run(adapter, request_for("dense", ["alpha " * 300]))
    assert response.items[0].num_tokens == 158


def test_models_that_load_at_once_do_not_disturb_each_other(tmp_path):
    """The library changes its own classes while it loads, for all threads."""
    tie = transformers.PreTrainedModel.tie_weights
    for name in ("albert", "ernie"):
        save(BY_NAME[name], "sparse", tmp_path / name)
    folders = [tmp_path / ("albert", "ernie")[place % 2] for place in range(16)]
    with ThreadPoolExecutor(8) as threads:
        adapters = list(threads.map(load, folders))
    assert transformers.PreTrainedModel.tie_weights is tie
    found = [_weights(adapter) for adapter in adapters]
    for place, own in enumerate(found):
        assert all(np.array_equal(a, b) for a, b in zip(own, found[place % 2], strict=True))


def _weights(adapter):
    response, _ = run(adapter, request_for("sparse", ["alpha beta", "river"]))
    return [item.sparse.values for item in response.items]


def test_half_precision_leaves_computed_tables_alone(tmp_path):
    config = transformers.GPTNeoXConfig(
        vocab_size=200,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=160,
    )
    torch.manual_seed(0)
    transformers.GPTNeoXModel(config).save_pretrained(tmp_path)
    make_tokenizer("eos").save(str(tmp_path / "tokenizer.json"))
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CPU, dtype=torch.bfloat16)
    module = adapter._model.encoder.module
    assert {one.dtype for one in module.parameters()} == {torch.bfloat16}
    assert module.rotary_emb.inv_freq.dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32
    half, full = (vectors(one, ["alpha beta"])[0] for one in (adapter, load(tmp_path)))
    assert half @ full / np.linalg.norm(half) / np.linalg.norm(full) > 0.999
