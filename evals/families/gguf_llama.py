"""A Llama in a GGUF file into a checkpoint, by the package gguf's reader and dequantiser."""

import re
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from evals.families.blocks import interleaved_to_halves
from evals.families.folders import Checkpoint

_SPECIAL = 3  # GGUF's type of a control token.
# Positions to serve; the model's own 8,192 are not needed here.
_MAX_LENGTH = 2048
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_llama(path: Path) -> Checkpoint:
    """Read sizes, weights (float32) and the byte-level BPE tokenizer.

    Raises:
        ValueError: another architecture or another tokenizer.
    """
    reader = gguf.GGUFReader(path)
    values: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    kind = values["general.architecture"], values["tokenizer.ggml.pre"]
    if kind != ("llama", "smollm"):
        raise ValueError(f"{path.name} is a {kind[0]} with tokenizer {kind[1]}; llama, smollm only")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": values["llama.embedding_length"],
        "intermediate_size": values["llama.feed_forward_length"],
        "num_hidden_layers": values["llama.block_count"],
        "num_attention_heads": values["llama.attention.head_count"],
        "num_key_value_heads": values["llama.attention.head_count_kv"],
        "max_position_embeddings": values["llama.context_length"],
        "rms_norm_eps": values["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": values["llama.rope.freq_base"],
        "vocab_size": values["llama.vocab_size"],
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": values["tokenizer.ggml.bos_token_id"],
        "eos_token_id": values["tokenizer.ggml.eos_token_id"],
        "pad_token_id": values["tokenizer.ggml.padding_token_id"],
    }
    tokens = values["tokenizer.ggml.tokens"]
    return Checkpoint(
        config=config,
        tensors={_name(one.name): _tensor(one, config) for one in reader.tensors},
        tokenizer=_tokenizer(values, tokens),
        max_length=_MAX_LENGTH,
        special={
            "bos_token": tokens[config["bos_token_id"]],
            "eos_token": tokens[config["eos_token_id"]],
            "pad_token": tokens[config["pad_token_id"]],
        },
    )


def _name(own: str) -> str:
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", own)
    if match is None:
        return _NAMES[own]
    return f"model.layers.{match[1]}.{_NAMES[match[2]]}.weight"


def _tensor(stored: gguf.ReaderTensor, config: dict[str, Any]) -> torch.Tensor:
    values = dequantize(stored.data, stored.tensor_type)
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    part = stored.name.split(".")[-2]
    if part in heads:
        values = interleaved_to_halves(values, config[heads[part]])
    return torch.from_numpy(values.copy())


def _tokenizer(values: dict[str, Any], tokens: list[str]) -> Tokenizer:
    merges = [tuple(one.split(" ", 1)) for one in values["tokenizer.ggml.merges"]]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = values["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _SPECIAL
        ]
    )
    return tokenizer
