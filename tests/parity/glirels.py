"""Tiny random GLiREL checkpoints, named and laid out as the glirel package saves them.

Its answers lie in glirel_expected.json, which `python -m tests.parity.glirel_reference` writes.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.parity.gliners import (
    Kind,
    encoder_shapes,
    filled,
    linear,
    make_tokenizer,
    save_tokenizer,
    two,
)

EXPECTED = Path(__file__).parent / "glirel_expected.json"
ENCODER = "token_rep_layer.bert_layer.model."
RELATIONS = ["works for", "born in", "naïve relation", "x"]
# A text, and the first and last word of its entities.
TEXTS: tuple[tuple[str, list[tuple[int, int]]], ...] = (
    ("Ann met Bob in Paris on 3 May 1999.", [(0, 0), (2, 2), (4, 4), (6, 8)]),
    ("unbelievable e-mail of Zoë Müller, river stone Coffee", [(1, 1), (3, 4), (6, 8)]),
)
_BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
_DEBERTA = {
    **_BERT,
    "model_type": "deberta-v2",
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "max_relative_positions": -1,
    "position_biased_input": False,
    "type_vocab_size": 0,
}


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: its encoder, and settings of glirel_config.json."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    encoder: dict[str, Any] = field(default_factory=lambda: _BERT)
    tokenizer: str = "wordpiece"
    size: int = 24
    scale: float = 0.15


KINDS = (
    Checkpoint("deberta", {"label_embed_strategy": "both"}, _DEBERTA, "metaspace"),
    Checkpoint("marked", {"add_entity_markers": True, "label_embed_strategy": "label"}, size=32),
    Checkpoint("mean", {"span_marker_mode": "markerv2"}),
    Checkpoint("near", {"max_entity_pair_distance": 3, "subtoken_pooling": "last"}),
    Checkpoint("threshold", {"scorer": "dot_thresh", "coref_classifier": True}),
    Checkpoint("refined", {"refine_prompt": True, "refine_relation": True}, size=128, scale=0.05),
    Checkpoint("biased", {"scorer": "dot_norm"}),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def settings_of(kind: Checkpoint) -> dict[str, Any]:
    """Return glirel_config.json."""
    return {
        "model_name": "tiny",
        "fine_tune": True,
        "subtoken_pooling": "first",
        "hidden_size": kind.size,
        "scorer": "dot",
        "rel_mode": "marker",
        "span_marker_mode": "markerv1",
        "label_embed_strategy": "ent_token",
        "max_width": 12,
        "dropout": 0.4,
        "ffn_mul": 2,
        "max_len": 384,
        "max_entity_pair_distance": None,
        "fixed_relation_types": True,
        **kind.settings,
    }


def save_glirel(folder: Path, kind: Checkpoint) -> None:
    """Write a checkpoint: weights, glirel_config.json and its encoder's tokenizer."""
    (folder / "glirel_config.json").write_text(json.dumps(settings_of(kind)))
    save_tokenizer(folder, make_tokenizer(kind.tokenizer, added=False))
    torch.save(tensors_of(kind), folder / "pytorch_model.bin")


def tensors_of(kind: Checkpoint) -> dict[str, torch.Tensor]:
    """Return weights that are the same on every machine and with every release of torch."""
    size, settings = kind.size, settings_of(kind)
    # All marks but [SEP], which the tokenizer has, are added.
    num_words = make_tokenizer(kind.tokenizer, added=False).get_vocab_size() + 4
    shapes = encoder_shapes(ENCODER, {**kind.encoder, "vocab_size": num_words})
    if size != kind.encoder["hidden_size"]:
        shapes |= linear("token_rep_layer.projection", kind.encoder["hidden_size"], size)
    for end in ("", "_reverse"):
        shapes |= {f"rnn.lstm.weight_{one}_l0{end}": [2 * size, size] for one in ("ih",)}
        shapes |= {f"rnn.lstm.weight_hh_l0{end}": [2 * size, size // 2]}
        shapes |= {f"rnn.lstm.bias_{one}_l0{end}": [2 * size] for one in ("ih", "hh")}
    shapes |= two("prompt_rep_layer", size, 4 * size, size)
    shapes |= _span_shapes(size, settings["span_marker_mode"])
    shapes |= _scorer_shapes(size, settings["scorer"])
    for name, num_layers in (("refine_relation", 1), ("refine_prompt", 2)):
        if settings.get(name):
            shapes |= _refine_shapes(name, num_layers, size, settings["ffn_mul"])
    if settings.get("coref_classifier"):
        shapes |= linear("coref_classifier.0", size, size) | linear("coref_classifier.3", size, 1)
    as_gliner = Kind(kind.name, kind.encoder["model_type"], kind.encoder, scale=kind.scale)
    return filled(as_gliner, shapes)


def _span_shapes(size: int, mode: str) -> dict[str, list[int]]:
    before = "span_rep_layer.rel_rep_layer."
    shapes = two(f"{before}out_project", 2 * size, 4 * size, size)
    if mode == "markerv2":
        return shapes | two(f"{before}span_marker.projection", size, 4 * size, size)
    for name in ("project_start", "project_end"):
        shapes |= two(f"{before}span_marker.{name}", size, 4 * size, size)
    return shapes | two(f"{before}span_marker.out_project", 2 * size, 4 * size, size)


def _scorer_shapes(size: int, scorer: str) -> dict[str, list[int]]:
    if scorer == "dot_thresh":
        shapes = two("scorer.proj_thresh", size, 4 * size, 2)
        return shapes | two("scorer.proj_type", size, 4 * size, size)
    if scorer == "dot_norm":
        shapes = two("scorer.dy_bias_type", size, 4 * size, 1)
        return shapes | two("scorer.dy_bias_rel", size, 4 * size, 1) | {"scorer.bias": []}
    return {}


def _refine_shapes(name: str, num_layers: int, size: int, ffn_mul: int) -> dict[str, list[int]]:
    shapes = linear(f"{name}.output", size, size)
    for layer in range(num_layers):
        before = f"{name}.blocks.{layer}."
        shapes[f"{before}read.mha.in_proj_weight"] = [3 * size, size]
        shapes[f"{before}read.mha.in_proj_bias"] = [3 * size]
        shapes |= linear(f"{before}read.mha.out_proj", size, size)
        shapes |= two(f"{before}ffn", size, size * ffn_mul, size)
        for norm in ("norm_read", "norm_ffn"):
            shapes |= {f"{before}{norm}.{part}": [size] for part in ("weight", "bias")}
    return shapes
