"""GTE and Jina's encoders, where the table of parity cannot reach."""

import pytest

from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import rewrite, save
from tests.parity.row import Dialect
from tests.parity.run import load
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, TOLERANCE, rows_of, worst

BY_NAME = {row.name: row for row in ROWS}


def saved(name, task, folder, changes, dropped=()):
    save(BY_NAME[name], task, folder)
    rewrite(folder, Dialect(config=changes, dropped=dropped))


# Each setting is read: another value gives other numbers.
SETTINGS = [
    ("gte", "dense", {"rope_parameters": {"rope_theta": 9.0}}),
    ("gte", "dense", {"hidden_act": "relu"}),
    ("new-ntk", "dense", {"rope_theta": 9.0}),
    ("new-ntk", "dense", {"rope_scaling": {"type": "ntk", "factor": 2.0}}),
    ("new-ntk", "dense", {"rope_scaling": {"type": "ntk", "factor": 4.0, "mixed_b": 0.6}}),
    ("new-ntk", "dense", {"rope_scaling": None}),
    ("new-ntk", "sparse", {"hidden_act": "silu"}),
    ("jina_bert", "dense", {"feed_forward_type": "reglu"}),
    ("xlm-roberta-rotary", "dense", {"rotary_emb_base": 9.0}),
    ("xlm-roberta-rotary", "dense", {"hidden_act": "gelu"}),
]


@pytest.mark.parametrize(("name", "task", "changes"), SETTINGS)
def test_every_setting_matters(name, task, changes, tmp_path):
    saved(name, task, tmp_path, {})
    before = rows_of(load(tmp_path), task, TEXTS)
    rewrite(tmp_path, Dialect(config=changes))
    assert worst(rows_of(load(tmp_path), task, TEXTS), before) > 1e-3


# Words of other files that mean the same.
SAME = [
    ("new-ntk", {"rope_scaling": {"type": "ntk", "factor": 4.0, "mixed_b": 1.0}}, ()),
    ("new-ntk", {}, ("position_embedding_type", "layer_norm_type", "logn_attention_scale")),
    ("gte", {"rope_theta": 100.0}, ("rope_parameters",)),
    ("xlm-roberta-rotary", {}, ("type_vocab_size",)),
    ("xlm-roberta-rotary", {"rotary_emb_dim": 8.0, "rotary_emb_interleaved": False}, ()),
    (
        "jina_bert-code",
        {"_name_or_path": "jinaai/jina-bert-v2-qk-post-norm"},
        ("auto_map",),
    ),
]


@pytest.mark.parametrize(("name", "changes", "dropped"), SAME)
def test_other_words_mean_the_same(name, changes, dropped, tmp_path):
    saved(name, "dense", tmp_path, {})
    before = rows_of(load(tmp_path), "dense", TEXTS)
    rewrite(tmp_path, Dialect(config=changes, dropped=dropped))
    adapter = load(tmp_path)
    assert adapter.card.max_sequence_length == 160
    assert worst(rows_of(adapter, "dense", TEXTS), before) <= TOLERANCE


def test_a_factor_below_one_scales_nothing(tmp_path):
    saved("new-ntk", "dense", tmp_path, {"rope_scaling": {"type": "ntk", "factor": 0.5}})
    before = rows_of(load(tmp_path), "dense", TEXTS)
    rewrite(tmp_path, Dialect(config={"rope_scaling": None}))
    assert worst(rows_of(load(tmp_path), "dense", TEXTS), before) <= TOLERANCE


REFUSALS = [
    ("new-ntk", {"position_embedding_type": "absolute"}, "position_embedding_type 'absolute'"),
    ("new-ntk", {"layer_norm_type": "rms_norm"}, "layer_norm_type 'rms_norm'"),
    ("new-ntk", {"logn_attention_scale": True}, "logn_attention_scale True"),
    ("new-ntk", {"rope_scaling": {"type": "su"}}, "rope_type 'su' is not supported"),
    ("new-ntk", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "supported: default, ntk"),
    ("new-ntk", {"rope_scaling": {"factor": 2.0}}, "rope_type None is not supported"),
    ("new-ntk", {"rope_scaling": {"type": "ntk"}}, "ntk rope needs 'factor'"),
    ("jina_bert", {"feed_forward_type": "original"}, "feed_forward_type 'original'"),
    ("jina_bert", {"emb_pooler": "cls"}, "emb_pooler 'cls' is not supported; supported: 'mean'"),
    # One layer's tensors under the other's name.
    ("jina_bert-code", {"auto_map": {}}, "has no place"),
    ("jina_bert", {"position_embedding_type": "absolute"}, "unknown to architecture 'bert'"),
    ("xlm-roberta-rotary", {"use_reg_tokens": True}, "use_reg_tokens True"),
    ("xlm-roberta-rotary", {"rotary_emb_interleaved": True}, "rotary_emb_interleaved True"),
    ("xlm-roberta-rotary", {"rotary_emb_scale_base": 512}, "rotary_emb_scale_base 512"),
    ("xlm-roberta-rotary", {"rotary_emb_dim": 4}, "rotary_emb_dim 4 is not supported"),
    ("xlm-roberta-rotary", {"truncate_dim": 16}, "truncate_dim 16"),
    ("xlm-roberta-rotary", {"position_embedding_type": "absolute"}, "has no place"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REFUSALS)
def test_a_setting_that_is_not_served_is_refused(name, changes, message, tmp_path):
    saved(name, "dense", tmp_path, changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)
