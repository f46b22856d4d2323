"""Dialects and refusals of T5 and the Gemmas, where the table of parity cannot reach."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import load
from tests.parity.table import ROWS
from tests.parity.test_causal import IDS, TEXT, change_config, dense
from tests.parity.test_parity import TOLERANCE

BY_NAME = {row.name: row for row in ROWS}


def change_class(row, name):
    return replace(row, classes={"dense": name, "cross_encoder": name})


def test_a_whole_t5_serves_its_encoder_and_leaves_its_decoder(tmp_path):
    row = change_class(BY_NAME["t5-gated-few-buckets"], "T5ForConditionalGeneration")
    reference = save(row, "dense", tmp_path)
    (tmp_path / "modules.json").unlink()
    with torch.no_grad():
        states = reference.encoder(input_ids=torch.tensor([IDS])).last_hidden_state[0]
    assert np.abs(dense(load(tmp_path), TEXT) - states.mean(0).numpy()).max() <= TOLERANCE


def test_a_t5_classifier_reads_its_decoder_and_is_refused(tmp_path):
    save(change_class(BY_NAME["t5"], "T5ForSequenceClassification"), "cross_encoder", tmp_path)
    with pytest.raises(ModelLoadFailed, match="cross_encoder, which is not supported"):
        load(tmp_path)


REFUSALS = [
    ("t5", {"feed_forward_proj": "mixed-gelu"}, "feed_forward_proj 'mixed-gelu'"),
    ("t5", {"feed_forward_proj": "maxout"}, "activation 'maxout'"),
    ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
    ("gemma", {"hidden_activation": "silu"}, "hidden_activation 'silu'"),
    ("gemma2", {"sliding_window": None}, "without a window"),
    ("gemma2", {"attn_type": "bbcc"}, "attn_type 'bbcc'"),
    ("gemma2", {"attn_type": "causal", "use_bidirectional_attention": True}, "disagree"),
    ("gemma3_text", {"sliding_window": None}, "without a window"),
    ("gemma3_text", {"layer_types": ["chunked_attention"] * 3}, "layer_types"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REFUSALS)
def test_a_setting_that_is_not_served_is_refused(name, changes, message, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_gemma_s_settings_as_older_files_spell_them(tmp_path):
    row = BY_NAME["gemma3_text"]
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    save(replace(row, config={**row.config, "layer_types": kinds}), "dense", tmp_path)
    expected = dense(load(tmp_path), TEXT)
    config = json.loads((tmp_path / "config.json").read_text())
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    old = {
        "sliding_window_pattern": 2,
        "rope_theta": rope["full_attention"].pop("rope_theta"),
        "rope_local_base_freq": rope["sliding_attention"]["rope_theta"],
        "rope_scaling": rope["full_attention"],
    }
    (tmp_path / "config.json").write_text(json.dumps({**config, **old}))
    assert np.array_equal(dense(load(tmp_path), TEXT), expected)


@pytest.mark.parametrize(
    "changes", [{"attn_logit_softcapping": 9.0}, {"query_pre_attn_scalar": 9}], ids=str
)
def test_how_gemma_2_scales_and_caps_its_scores_matters(changes, tmp_path):
    save(BY_NAME["gemma2"], "dense", tmp_path)
    before = dense(load(tmp_path), TEXT)
    change_config(tmp_path, **changes)
    assert np.abs(dense(load(tmp_path), TEXT) - before).max() > 1e-3


def test_another_word_for_both_ways_means_the_same(tmp_path):
    save(BY_NAME["gemma-bidirectional-biased"], "dense", tmp_path)
    expected = dense(load(tmp_path), TEXT)
    for word in ({"use_bidirectional_attention": True}, {"attn_type": "bidirectional"}):
        change_config(tmp_path, **{"is_causal": None, "attn_type": None, **word})
        assert np.array_equal(dense(load(tmp_path), TEXT), expected)
    change_config(tmp_path, use_bidirectional_attention=False, attn_type="causal")
    assert np.abs(dense(load(tmp_path), TEXT) - expected).max() > 1e-3
