"""Case T47: what a checkpoint without modules.json is taken for, and that this can be seen."""

import logging
from typing import Any

import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.catalogue.entries import Catalogue, Entry
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from tests.parity.checkpoints import save, write_json
from tests.parity.run import CPU
from tests.parity.table import ROWS
from tests.tiny import change_json

BERT = ROWS[0]
SIZES = {
    "vocab_size": 200,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 160,
}


def read(folder, config: dict[str, Any], entry: Entry | None = None):
    write_json(folder / "config.json", config)
    return create.read_recipe("m", folder, entry)


def of(model_type: str, architecture: str, **settings: Any) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [architecture], **SIZES, **settings}


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (of("bert", "BertModel"), "mean"),
        (of("bert", "BertForMaskedLM"), "mean"),
        (of("qwen3", "Qwen3ForCausalLM", head_dim=8), "lasttoken"),
        (of("qwen2", "Qwen2ForCausalLM"), "lasttoken"),
        (of("qwen2", "Qwen2ForCausalLM", is_causal=False), "mean"),
        (of("albert", "AlbertForMaskedLM"), "mean"),
    ],
    ids=["bert", "masked", "qwen3", "qwen2", "qwen2-sees-all", "albert"],
)
def test_the_pooling_of_a_bare_model(config, pooling, tmp_path):
    recipe = read(tmp_path, config)
    assert recipe.tasks == ("dense", "multivector")
    assert recipe.pooling == (pooling,)
    assert "without modules.json" in create.describe(recipe).decisions["pooling"]


def test_a_masked_language_model_is_sparse_where_the_catalogue_says_so(tmp_path):
    source = {"kind": "path", "path": str(tmp_path)}
    entry = Entry.model_validate({"name": "m", "tasks": ["sparse"], "sources": [source]})
    card = create.describe(read(tmp_path, of("bert", "BertForMaskedLM"), entry))
    assert card.outputs == ["sparse"]
    assert card.decisions["tasks"] == "sparse (catalogue)"


@pytest.mark.parametrize("model_type", ["bert", "albert"])
def test_a_classifier_with_one_label_is_a_reranker_with_a_sigmoid(model_type, tmp_path):
    head = f"{model_type.title()}ForSequenceClassification"
    recipe = read(tmp_path, of(model_type, head, id2label={"0": "LABEL_0"}))
    assert recipe.tasks == ("cross_encoder",)
    assert recipe.score_activation == "sigmoid"
    assert (
        create.describe(recipe).decisions["score_activation"] == "sigmoid (default for 1 label(s))"
    )


def test_a_colbert_s_own_class_is_late_interaction(tmp_path):
    recipe = read(tmp_path, of("bert", "HF_ColBERT"))
    card = create.describe(recipe)
    assert card.outputs == ["multivector", "muvera"]
    assert card.dims == {"multivector": 128, "muvera": 10_240}
    assert card.decisions["multivector"] == "Stanford ColBERT (config.json)"


def test_sizes_are_found_in_a_nested_text_config(tmp_path):
    nested = {"model_type": "bert", "architectures": ["BertModel"], "text_config": SIZES}
    card = create.describe(read(tmp_path, nested))
    assert card.dims["dense"] == 32
    assert card.max_sequence_length == 160
    own = {**nested, "hidden_size": 48}
    assert create.describe(read(tmp_path, own)).dims["dense"] == 48


def test_what_was_decided_is_logged_once_a_load_and_is_in_the_card(tmp_path, caplog):
    folder = tmp_path / "m"
    save(BERT, "dense", folder)
    (folder / "modules.json").unlink()
    change_json(folder, "config.json", architectures=["BertModel"])
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, CPU, torch.float32)
    with caplog.at_level(logging.INFO, logger="sie_mcp"):
        card = loader.load(loader.plan(str(folder))).card
    (record,) = [one for one in caplog.records if one.message.startswith("decided")]
    assert card.decisions["pooling"] == "mean (default of an encoder without modules.json)"
    for what, decision in card.decisions.items():
        assert f"'{what}': {decision!r}" in record.message
