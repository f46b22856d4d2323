"""What a checkpoint's files decide: dialects of pooling, activations, labels, refusals."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.prompts import choose_prompt
from sie_mcp.catalogue.entries import Entry
from sie_mcp.errors import ModelLoadFailed
from tests.adapters.bert_vectors import BERT, vectors
from tests.parity.checkpoints import save, write_json
from tests.parity.run import load, run


def scores(folder, *, raw=False):
    request = wire.ScoreRequest(
        query=wire.Item(text="alpha river"),
        items=[wire.Item(text="beta"), wire.Item(text="coffee stone")],
        options=wire.ScoreOptions(raw_scores=raw),
    )
    response, _ = run(load(folder), request)
    return {one.index: one.score for one in response.scores}, response.score_type


OLD = {
    "word_embedding_dimension": 32,
    "pooling_mode_cls_token": True,
    "pooling_mode_mean_tokens": False,
    "pooling_mode_max_tokens": False,
}
NEW_TYPES = [
    "sentence_transformers.base.modules.transformer.Transformer",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
]


def test_both_pooling_dialects_give_the_same_vectors_and_an_unknown_mode_none(tmp_path):
    """Case T01."""
    reference = save(BERT, "dense", tmp_path / "a")
    save(BERT, "dense", tmp_path / "b")
    save(BERT, "dense", tmp_path / "c")
    write_json(tmp_path / "a/1_Pooling/config.json", OLD)
    new = {"embedding_dimension": 32, "pooling_mode": "cls", "include_prompt": True}
    write_json(tmp_path / "b/1_Pooling/config.json", new)
    modules = json.loads((tmp_path / "b/modules.json").read_text())
    for module, kind in zip(modules, NEW_TYPES, strict=True):
        module["type"] = kind
    write_json(tmp_path / "b/modules.json", modules)
    write_json(tmp_path / "c/1_Pooling/config.json", new | {"pooling_mode": "first"})
    a, b = vectors(tmp_path / "a"), vectors(tmp_path / "b")
    assert np.array_equal(a, b)
    with torch.no_grad():
        ids = torch.tensor([[1, 5, 6, 7, 2]])
        hidden = reference(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert np.abs(a[0] - hidden[0, 0].numpy()).max() <= 1e-5
    assert np.abs(a[0] - hidden[0].mean(0).numpy()).max() >= 1e-2
    with pytest.raises(ModelLoadFailed, match=r"1_Pooling/config.json: pooling_mode 'first'"):
        load(tmp_path / "c")


def test_the_first_file_that_names_an_activation_decides(tmp_path):
    """Case T61: four copies; raw scores are the logits for all; activation once."""
    cases = {
        "none": ({}, None, "probability"),
        "identity": (
            {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
            None,
            "logit",
        ),
        "sigmoid": (
            {
                "sentence_transformers": {
                    "activation_fn": "torch.nn.modules.activation.Sigmoid",
                    "version": "5.0",
                }
            },
            None,
            "probability",
        ),
        "both": (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}},
            {"activation_fn": "torch.nn.modules.linear.Identity"},
            "logit",
        ),
    }
    for name, (config, settings, score_type) in cases.items():
        folder = tmp_path / name
        save(BERT, "cross_encoder", folder)
        content = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", content | config)
        if settings:
            write_json(folder / "config_sentence_transformers.json", settings)
        raw, raw_type = scores(folder, raw=True)
        found, found_type = scores(folder)
        assert raw_type == "logit"
        assert found_type == score_type
        for index, logit in raw.items():
            expected = logit if score_type == "logit" else 1 / (1 + np.exp(-logit))
            assert found[index] == pytest.approx(expected, abs=1e-6)


def test_an_activation_that_is_not_torch_s_own_is_not_run(tmp_path):
    save(BERT, "cross_encoder", tmp_path / "m")
    settings = {"activation_fn": "evil.module.Run"}
    write_json(tmp_path / "m/config_sentence_transformers.json", settings)
    assert scores(tmp_path / "m")[1] == "probability"


def test_dense_modules_are_applied_after_pooling(tmp_path):
    save(BERT, "dense", tmp_path / "m")
    plain = vectors(tmp_path / "m")
    modules = json.loads((tmp_path / "m/modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "x.models.Dense"})
    modules.append({"idx": 3, "name": "3", "path": "3_Normalize", "type": "x.models.Normalize"})
    write_json(tmp_path / "m/modules.json", modules)
    (tmp_path / "m/2_Dense").mkdir()
    weight, bias = torch.randn(8, 32), torch.randn(8)
    save_file(
        {"linear.weight": weight, "linear.bias": bias}, tmp_path / "m/2_Dense/model.safetensors"
    )
    config = {"in_features": 32, "out_features": 8, "bias": True}
    write_json(tmp_path / "m/2_Dense/config.json", config)
    expected = torch.tanh(torch.from_numpy(plain) @ weight.T + bias)
    expected = torch.nn.functional.normalize(expected, dim=-1).numpy()
    assert np.abs(vectors(tmp_path / "m") - expected).max() <= 1e-5


def test_prompts_and_roles_are_put_in_front(tmp_path):
    save(BERT, "dense", tmp_path / "m")
    prompts = {"query": "river ", "document": ""}
    write_json(tmp_path / "m/config_sentence_transformers.json", {"prompts": prompts})
    adapter = load(tmp_path / "m")

    def encode(text, **options):
        params = wire.EncodeParams(options=wire.EncodeOptions(**options))
        request = wire.EncodeRequest(items=[wire.Item(text=text)], params=params)
        return run(adapter, request)[0].items[0].dense.values

    spelled = encode("river alpha")
    assert np.allclose(encode("alpha", is_query=True), spelled, atol=1e-6)
    assert np.allclose(encode("alpha", prompt_name="query"), spelled, atol=1e-6)
    assert np.allclose(encode("alpha", prompt="river "), spelled, atol=1e-6)
    assert not np.allclose(encode("alpha"), spelled, atol=1e-3)
    with pytest.raises(Exception, match="no prompt 'passage'; it has: query"):
        encode("alpha", prompt_name="passage")


def test_catalogue_prompts_fill_what_the_files_leave_out(tmp_path):
    save(BERT, "dense", tmp_path / "m")
    source = {"kind": "path", "path": str(tmp_path)}
    entry = Entry.model_validate(
        {"name": "m", "prompts": {"query": "query: "}, "max_length": 16, "sources": [source]}
    )
    card = load(tmp_path / "m", entry).card
    assert card.max_sequence_length == 16
    assert card.decisions["prompts"] == "['query'] (catalogue)"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", "{", "modules.json cannot be read"),
        ("modules.json", "{}", "must hold a JSON list"),
        (
            "modules.json",
            '[{"idx":0,"path":"","type":"x.LSTM"}]',
            "module 'LSTM' is not supported",
        ),
        ("config.json", '{"model_type": "hyena"}', "model_type 'hyena', which is not supported"),
        ("config.json", '{"model_type": "rwkv"}', "describes 7,[0-9,]+ weights, .* holds"),
        ("config.json", '{"model_type": "vit"}', "reads pixel_values, not text"),
        (
            "config.json",
            '{"model_type": "x", "auto_map": {"AutoModel": "m.M"}}',
            "put 'm' into SIE_MCP_ALLOW_REMOTE_CODE",
        ),
        ("config.json", '{"model_type": "bert"}', "config.json has no 'hidden_size'"),
        ("config.json", '{"model_type": "bert", "is_decoder": true}', "is_decoder true"),
        ("model.safetensors", "not tensors", "model.safetensors cannot be read"),
        ("tokenizer.json", "nonsense", "tokenizer.json cannot be read"),
        ("gliner_config.json", "{}", "it has no encoder_config"),
    ],
)
def test_a_bad_file_is_named(tmp_path, file, content, message):
    save(BERT, "dense", tmp_path / "m")
    (tmp_path / "m" / file).write_text(content)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path / "m")


def test_every_decision_names_its_file(tmp_path):
    save(BERT, "dense", tmp_path / "m")
    card = create.describe(create.read_recipe("m", tmp_path / "m", None))
    assert card.decisions["pooling"] == "mean (1_Pooling/config.json)"
    assert card.decisions["max_length"] == "160 (config.json)"
    assert card.decisions["tasks"] == "dense, multivector (modules.json)"
    assert card.packed is True
    assert load(tmp_path / "m").card.decisions == card.decisions


def test_an_instruction_takes_the_form_that_the_model_knows(tmp_path):
    """From the catalogue, else as the query prompt of the files is written, else as it is."""
    save(BERT, "dense", tmp_path)
    source = {"kind": "path", "path": "/"}
    entry = Entry.model_validate(
        {
            "name": "m",
            "sources": [source],
            "instruction_template": "<{instruction}> ",
            "include_prompt": False,
        }
    )
    settings = {"prompts": {"query": "Instruct: Find it\nQuery: "}}

    def prompt(entry):
        recipe = create.read_recipe("m", tmp_path, entry)
        return choose_prompt(recipe, wire.EncodeParams(instruction="alpha {beta}"))

    assert prompt(None) == "alpha {beta}"
    assert prompt(entry) == "<alpha {beta}> "
    assert not create.read_recipe("m", tmp_path, entry).include_prompt
    write_json(tmp_path / "config_sentence_transformers.json", settings)
    assert prompt(None) == "Instruct: alpha {beta}\nQuery: "
