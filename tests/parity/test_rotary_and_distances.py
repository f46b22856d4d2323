"""ModernBERT, NomicBERT and DeBERTa, where the table of parity cannot reach."""

import json

import numpy as np
import pytest
import torch
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.create import read_recipe
from sie_mcp.adapters.layers.distances import Distances, DistanceTable
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.adapters.weights import fill
from sie_mcp.errors import ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, TOLERANCE, rows_of, worst

BY_NAME = {row.name: row for row in ROWS}
MODERNBERT = "modernbert"
SCALED = "modernbert-mean-biased-scaled"
NOMIC = "nomic_bert"
EXPERTS = "nomic_bert-experts"
DEBERTA = "deberta-v2"
OWN_PROJECTIONS = "deberta-v2-own-projections"


def change_config(folder, changes, *, dropped=()):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: config[key] for key in config if key not in dropped}))


# Each setting that a row sets is read: another value gives other numbers.
SETTINGS = [
    (MODERNBERT, "dense", {"local_attention": 20}),
    (MODERNBERT, "dense", {"layer_types": ["full_attention"] * 5}),
    (MODERNBERT, "dense", {"rope_parameters": {"full_attention": {"rope_theta": 9.0}}}),
    (MODERNBERT, "dense", {"rope_parameters": {"sliding_attention": {"rope_theta": 9.0}}}),
    (MODERNBERT, "dense", {"norm_eps": 0.1}),
    (SCALED, "dense", {"rope_scaling": {"rope_type": "linear", "factor": 5.0}}),
    (SCALED, "cross_encoder", {"classifier_pooling": "cls"}),
    (SCALED, "cross_encoder", {"classifier_activation": "gelu"}),
    (NOMIC, "dense", {"rope_parameters": {"rope_theta": 9.0}}),
    (NOMIC, "dense", {"hidden_act": "gelu"}),
    (EXPERTS, "dense", {"moe_top_k": 3}),
    (EXPERTS, "dense", {"rotary_emb_base": 9}),
    (EXPERTS, "dense", {"layer_norm_epsilon": 0.1}),
    (DEBERTA, "dense", {"max_relative_positions": 48}),
    (DEBERTA, "cross_encoder", {"pooler_hidden_act": "tanh"}),
    (OWN_PROJECTIONS, "sparse", {"hidden_act": "gelu"}),
]


@pytest.mark.parametrize(("name", "task", "changes"), SETTINGS)
def test_every_setting_of_a_row_matters(name, task, changes, tmp_path):
    save(BY_NAME[name], task, tmp_path)
    before = rows_of(load(tmp_path), task, TEXTS)
    dropped = ("rope_parameters",) if "rope_scaling" in changes else ()
    change_config(tmp_path, changes, dropped=dropped)
    assert worst(rows_of(load(tmp_path), task, TEXTS), before) > 1e-3


# A family's rows in the words of older files, or of its authors' own.
DIALECTS = [
    (
        MODERNBERT,
        {"global_attn_every_n_layers": 3, "global_rope_theta": 160000, "local_rope_theta": 10000.0},
        ("layer_types", "rope_parameters"),
    ),
    (MODERNBERT, {"position_embedding_type": "sans_pos"}, ("layer_types", "rope_parameters")),
    (
        NOMIC,
        {
            "n_embd": 32,
            "n_head": 4,
            "n_inner": 64,
            "n_layer": 3,
            "n_positions": 160,
            "layer_norm_epsilon": 1e-12,
            "activation_function": "swiglu",
            "rotary_emb_base": 1000,
            "rotary_emb_fraction": 1.0,
            "rotary_scaling_factor": None,
            "qkv_proj_bias": False,
            "prenorm": False,
        },
        (
            "hidden_size",
            "num_attention_heads",
            "head_dim",
            "intermediate_size",
            "num_hidden_layers",
            "max_position_embeddings",
            "layer_norm_eps",
            "hidden_act",
            "rope_parameters",
        ),
    ),
    (DEBERTA, {"pos_att_type": "c2p|p2c"}, ()),
    (DEBERTA, {}, ("type_vocab_size", "layer_norm_eps", "pooler_hidden_size")),
]


@pytest.mark.parametrize(("name", "changes", "dropped"), DIALECTS)
def test_another_dialect_of_the_config_means_the_same(name, changes, dropped, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    before = rows_of(load(tmp_path), "dense", TEXTS)
    change_config(tmp_path, changes, dropped=dropped)
    adapter = load(tmp_path)
    assert adapter.card.max_sequence_length == 160
    assert worst(rows_of(adapter, "dense", TEXTS), before) == 0.0


REFUSALS = [
    (MODERNBERT, {"layer_types": ["full_attention"]}, "layer_types"),
    (MODERNBERT, {"layer_types": ["chunked_attention"] * 5}, "layer_types"),
    (MODERNBERT, {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    (NOMIC, {"prenorm": True}, "prenorm True is not supported; supported: False"),
    (NOMIC, {"moe_every_n_layers": 1}, "moe_every_n_layers 1"),
    (NOMIC, {"moe_every_n_layers": 2}, "activation_function None"),
    (NOMIC, {"mlp_fc1_bias": True}, "lacks the weights of"),
    (NOMIC, {"mlp_fc2_bias": True}, "mlp_fc2_bias True"),
    (EXPERTS, {"moe_normalize_expert_weights": True}, "moe_normalize_expert_weights True"),
    (EXPERTS, {"expert_choice_router": True}, "expert_choice_router True"),
    (EXPERTS, {"num_shared_experts": 1}, "num_shared_experts 1"),
    (EXPERTS, {"num_experts": 7}, "config.json asks for"),
    (NOMIC, {"rotary_scaling_factor": 2.0}, "rotary_scaling_factor 2.0"),
    (NOMIC, {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "rope_type 'longrope'"),
    (NOMIC, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    (DEBERTA, {"conv_kernel_size": 3}, "conv_kernel_size 3"),
    (DEBERTA, {"relative_attention": False}, "relative_attention False"),
    (DEBERTA, {"pos_att_type": ["c2p", "p2p"]}, "pos_att_type"),
    (DEBERTA, {"pos_att_type": None}, "pos_att_type None"),
    (DEBERTA, {"norm_rel_ebd": "rms_norm"}, "norm_rel_ebd 'rms_norm'"),
    (DEBERTA, {"embedding_size": 16}, "embedding_size 16"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REFUSALS)
def test_a_setting_that_is_not_served_is_refused(name, changes, message, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    change_config(tmp_path, changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_pooling_that_is_not_served_is_refused(tmp_path):
    save(BY_NAME[MODERNBERT], "cross_encoder", tmp_path)
    change_config(tmp_path, {"classifier_pooling": "max"})
    with pytest.raises(ModelLoadFailed, match="classifier_pooling 'max'"):
        load(tmp_path)


def test_what_a_head_reads_is_among_the_decisions(tmp_path):
    save(BY_NAME[SCALED], "cross_encoder", tmp_path)
    assert load(tmp_path).card.decisions["pooling"].startswith("mean")


@pytest.mark.parametrize(
    "name", [MODERNBERT, NOMIC, EXPERTS, DEBERTA, OWN_PROJECTIONS, "gte", "jina_bert"]
)
def test_tokens_that_are_not_seen_change_nothing_for_the_others(name, tmp_path):
    save(BY_NAME[name], "dense", tmp_path)
    recipe = read_recipe(name, tmp_path, None)
    architecture = ARCHITECTURES[recipe.architecture]
    with torch.device("meta"):
        model = Model(recipe, architecture)
    source = open_tensors(tmp_path)
    fill(model, source, architecture, recipe, device=CPU, dtype=torch.float32)
    short, long = np.arange(5, 25), np.arange(5, 45)
    with torch.inference_mode():
        seen = model.encoder(pack([Sequence(short)], CPU))
        batch = pack([Sequence(long, num_attended=20), Sequence(short)], CPU)
        expanded = model.encoder(batch)[:20]
        all_seen = model.encoder(pack([Sequence(long)], CPU))[:20]
    assert (expanded - seen).abs().max() <= TOLERANCE
    assert (all_seen - seen).abs().max() > 1e-2


@pytest.mark.parametrize(("num_buckets", "farthest"), [(256, 512), (16, 160), (32, 48), (8, 2048)])
def test_every_distance_has_the_row_of_the_reference(num_buckets, farthest):
    table = DistanceTable(reach=num_buckets, max_distance=farthest)
    distances = torch.arange(-3000, 3001)
    shared = make_log_bucket_position(distances, num_buckets, farthest).long()
    expected = (shared + num_buckets).clamp(0, 2 * num_buckets - 1)
    assert torch.equal(table.rows(3001), expected)


@pytest.mark.parametrize("longest", [1, 2, 9, 40])
def test_a_batch_uses_only_the_rows_of_its_distances(longest):
    table = DistanceTable(reach=16, max_distance=160)
    distances = Distances(table, longest, CPU)
    for length in {1, (longest + 1) // 2, longest}:
        rows = distances.between(length) + distances.used.start
        places = torch.arange(length)
        expected = table.rows(longest)[places[:, None] - places[None, :] + longest - 1]
        assert torch.equal(rows, expected)
    assert distances.used.stop - distances.used.start == len(table.rows(longest).unique())
