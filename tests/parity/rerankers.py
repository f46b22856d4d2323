"""Tiny random language models that rerank, with the words that the forms of asking need."""

from pathlib import Path

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from sie_mcp.catalogue.entries import Entry
from tests.parity.checkpoints import make_tokenizer

SIZES = {
    "vocab_size": 200,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 400,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
QUERY = "alpha river"
DOCUMENTS = ["morning coffee", "x", "beta stone " * 9, "gamma {query} delta"]
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"tie_word_embeddings": True}),
    "qwen2-untied": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": False}),
    "gemma": (GemmaConfig, GemmaForCausalLM, {}),
    # Windows shorter than the shared beginning, capped scores and capped logits.
    "gemma2": (Gemma2Config, Gemma2ForCausalLM, {"sliding_window": 7}),
}


def entry(**fields) -> Entry:
    source = {"kind": "path", "path": "/"}
    return Entry.model_validate({"name": "reranker", "sources": [source], **fields})


def save(family: str, folder: Path):
    torch.manual_seed(0)
    config_class, model_class, changes = FAMILIES[family]
    config = config_class(**{**SIZES, **changes})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    model.save_pretrained(folder)
    tokenizer = make_tokenizer("bos")
    vocabulary = tokenizer.get_vocab()
    assert "yes" not in vocabulary
    # Every word of a form that the vocabulary lacks is [UNK]; the two that make the score must
    # differ, so they stand for two words that it has.
    text = tokenizer.to_str()
    for ours, theirs in (("w40", "yes"), ("w41", "no"), ("w42", "1"), ("w43", "0")):
        text = text.replace(f'"{ours}"', f'"{theirs}"')
    (folder / "tokenizer.json").write_text(text)
    return model
