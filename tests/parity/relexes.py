"""Tiny random GLiNER checkpoints that link entities, laid out as the gliner package saves them.

Its answers lie in relex_expected.json, which `python -m tests.parity.relex_reference` writes.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from tests.parity.gliners import (
    Kind,
    filled,
    linear,
    make_tokenizer,
    save_tokenizer,
    settings_of,
    shapes_of,
    span_shapes,
    two,
)

EXPECTED = Path(__file__).parent / "relex_expected.json"
ENTITIES = ["person", "city", "date of birth", "x"]
RELATIONS = ["works for", "born in", "naïve relation"]
TEXTS = [
    "Ann met Bob in Paris on 3 May 1999.",
    "x",
    "unbelievable e-mail: ann@example.org, well-known; Zoë Müller",
    "",
    "İstanbul 👩 Dora, é Eve",
]
# Entities, relations, threshold of everything, the package's and our words for what may overlap.
QUESTIONS: tuple[tuple[list[str], list[str], float, dict[str, Any], dict[str, Any]], ...] = (
    (ENTITIES, RELATIONS[:2], 0.55, {}, {}),
    (ENTITIES[:2], RELATIONS[2:], 0.7, {"flat_ner": False}, {"overlap": "nested"}),
    (ENTITIES[1:], RELATIONS[:1], 0.4, {}, {}),
)
_BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
_TOKEN = {"span_mode": "token_level"}


def _kind(name: str, layer: str, seed: int = 5, **settings: Any) -> Kind:
    mode = "token" if settings.get("span_mode") == "token_level" else "span"
    own = {"relations_layer": layer, "model_type": f"gliner_uni_encoder_{mode}_relex", **settings}
    return Kind(name, "bert", _BERT, own, seed=seed)


KINDS = (
    _kind("span-none", "none"),
    _kind("span-dot", "dot", embed_rel_token=False),
    _kind("span-mlp", "mlp", span_mode="markerV1", max_width=5, seed=8),
    _kind("span-bilinear", "bilinear", triples_layer="DistMult"),
    _kind("span-gcn", "gcn"),
    _kind("span-gat", "gat", span_mode="marker", triples_layer="ComplEx", seed=7),
    _kind("token-none", "none", seed=1, **_TOKEN),
    _kind("token-gcn", "gcn", seed=4, triples_layer="DistMA", **_TOKEN),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def save_relex(folder: Path, kind: Kind) -> None:
    """Write a checkpoint: weights, gliner_config.json and a tokenizer."""
    tokenizer = make_tokenizer(kind.tokenizer, added=False)
    tokenizer.add_special_tokens(["<<ENT>>", "<<SEP>>", "<<REL>>"])
    num_words = tokenizer.get_vocab_size()
    settings = settings_of(kind, num_words)
    settings |= {"class_token_index": num_words - 3, "rel_token_index": num_words - 1}
    (folder / "gliner_config.json").write_text(json.dumps(settings))
    save_tokenizer(folder, tokenizer)
    shapes = shapes_of(kind, settings) | _link_shapes(settings)
    save_file(filled(kind, shapes), folder / "model.safetensors")


def _link_shapes(settings: dict[str, Any]) -> dict[str, list[int]]:
    size, layer = settings["hidden_size"], settings["relations_layer"]
    shapes: dict[str, list[int]] = {}
    if settings["span_mode"] == "token_level":
        shapes |= span_shapes(size, "markerV0")
    if settings.get("triples_layer") is None:
        shapes |= two("pair_rep_layer", 2 * size, 4 * size, size)
    before = "relations_rep_layer.relation_rep_layer."
    if layer == "mlp":
        shapes |= linear(f"{before}mlp.0", 2 * size, size) | linear(f"{before}mlp.2", size, 1)
    if layer in ("bilinear", "gcn"):
        shapes |= linear(f"{before}proj", size, size)
    if layer == "gcn":
        shapes |= linear(f"{before}gcn.linear", size, size)
    if layer == "gat":
        shapes |= linear(f"{before}linear", size, size)
        shapes |= linear(f"{before}attn.out_proj", size, size)
        shapes[f"{before}attn.in_proj_weight"] = [3 * size, size]
        shapes[f"{before}attn.in_proj_bias"] = [3 * size]
    return shapes
