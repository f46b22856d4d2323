"""What sets decoders apart as encoders of text, where the table of parity cannot reach."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import load, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TOLERANCE, request_for

BY_NAME = {row.name: row for row in ROWS}
TEXT, IDS = "alpha coffee", [5, 11, 2]
CAUSAL = ["qwen2", "qwen3", "llama", "mistral", "gemma", "gemma2"]


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def tokens(adapter, text):
    request = wire.EncodeRequest.model_validate(
        {"items": [{"text": text}], "params": {"output_types": ["multivector"]}}
    )
    response, _ = run(adapter, request)
    return response.items[0].multivector.values


def dense(adapter, text):
    response, _ = run(adapter, request_for("dense", [text]))
    return response.items[0].dense.values


@pytest.mark.parametrize("name", CAUSAL)
def test_another_last_token_changes_no_token_before_it(name, tmp_path):
    """Case T05."""
    row = BY_NAME[name]
    save(row, "dense", tmp_path)
    adapter = load(tmp_path)
    # Where "</s>" follows the text, the last word and all after it may change.
    after = 2 if row.tokenizer == "eos" else 1
    first, second = (tokens(adapter, f"alpha river coffee {word}") for word in ("stone", "beta"))
    assert np.abs(first[:-after] - second[:-after]).max() <= 1e-6
    assert np.abs(first[-after:] - second[-after:]).max() > 1e-2


@pytest.mark.parametrize("name", CAUSAL)
def test_a_model_that_is_not_causal_sees_what_follows(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_config(tmp_path, is_causal=False)
    adapter = load(tmp_path)
    first, second = (tokens(adapter, f"alpha river coffee {word}") for word in ("stone", "beta"))
    assert np.abs(first[0] - second[0]).max() > 1e-2


def save_language_model(row, folder, **changes):
    """Save a tiny language model without modules.json; return the reference's hidden states."""
    classes = {"dense": row.classes["dense"].replace("Model", "ForCausalLM")}
    config = {**row.config, **changes}
    model = save(replace(row, config=config, classes=classes), "dense", folder)
    (folder / "modules.json").unlink()
    with torch.no_grad():
        return model.model(input_ids=torch.tensor([IDS])).last_hidden_state[0].numpy()


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "mistral"])
def test_a_language_model_gives_its_last_token(name, tmp_path):
    expected = save_language_model(BY_NAME[name], tmp_path)
    adapter = load(tmp_path)
    assert np.abs(dense(adapter, TEXT) - expected[-1]).max() <= TOLERANCE
    assert adapter.card.decisions["pooling"].startswith("lasttoken")


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "mistral"])
def test_a_language_model_that_is_not_causal_gives_the_mean(name, tmp_path):
    expected = save_language_model(BY_NAME[name], tmp_path, is_causal=False)
    assert np.abs(dense(load(tmp_path), TEXT) - expected.mean(0)).max() <= TOLERANCE


def test_settings_as_older_files_spell_them(tmp_path):
    save(BY_NAME["llama"], "dense", tmp_path)
    expected = dense(load(tmp_path), TEXT)
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    theta = scaling.pop("rope_theta")
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "rope_theta": theta, "rope_scaling": scaling})
    )
    assert np.array_equal(dense(load(tmp_path), TEXT), expected)


REFUSALS = [
    ("llama", {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "'longrope'"),
    ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "needs 'low_freq"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("qwen2", {"layer_types": ["full_attention"]}, "layer_types"),
    ("qwen2", {"layer_types": ["sliding_attention"] * 3}, "without a window"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REFUSALS)
def test_a_setting_that_is_not_served_is_refused(name, changes, message, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_task_without_a_head_of_the_family_is_refused(tmp_path):
    save(BY_NAME["qwen2"], "dense", tmp_path)
    pipeline = json.loads((tmp_path / "modules.json").read_text())
    pipeline[1]["type"] = "sentence_transformers.models.SpladePooling"
    (tmp_path / "modules.json").write_text(json.dumps(pipeline))
    with pytest.raises(ModelLoadFailed, match="sparse, which is not supported"):
        load(tmp_path)


def test_a_pair_that_ends_in_the_padding_token_is_scored_at_the_token_before(tmp_path):
    row = BY_NAME["qwen3"]
    reference = save(row, "cross_encoder", tmp_path)
    # As where one token ends a text and pads a batch.
    reference.config.pad_token_id = 2
    change_config(tmp_path, pad_token_id=2)
    response, _ = run(load(tmp_path), request_for("cross_encoder", ["morning coffee"]))
    ids = torch.tensor([[5, 12, 2, 10, 11, 2]])
    with torch.no_grad():
        expected = float(reference(input_ids=ids).logits[0, 0])
    assert abs(response.scores[0].score - expected) <= TOLERANCE
