"""Encoders in ONNX files into checkpoints, by names of initialisers and of the nodes using them.

Written apart from the product's own reader, which it is there to check.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from tokenizers import Tokenizer

from evals.families.blocks import from_scaled
from evals.families.folders import Checkpoint

_PARTS = ("_quantized", "_scale", "_zero_point")
_T5 = {
    "architectures": ["T5EncoderModel"],
    "model_type": "t5",
    "d_kv": 64,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}


def read_t5(folder: Path) -> Checkpoint:
    """Read the encoder of flan-t5-small, int8 with one scale a tensor."""
    tensors = {
        re.sub(r"^enc\.", "encoder.", name): tensor
        for name, tensor in _tensors(folder / "encoder.onnx")
    }
    tensors["shared.weight"] = tensors.pop("encoder.embed_tokens.weight")
    words, width = tensors["shared.weight"].shape
    bias = tensors["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    widened = tensors["encoder.block.0.layer.1.DenseReluDense.wi_0.weight"].shape[0]
    layers = 1 + max(int(found[1]) for name in tensors if (found := _block(name)))
    config = {
        **_T5,
        "vocab_size": words,
        "d_model": width,
        "d_ff": widened,
        "num_layers": layers,
        "num_heads": bias.shape[1],
    }
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return Checkpoint(config, tensors, tokenizer, max_length=512, special=special)


def read_minilm(path: Path, vocabulary: Path) -> Checkpoint:
    """Read a three-layer MiniLM; `vocabulary`: the folder whose tokenizer it shares."""
    tensors = {
        re.sub(r"^(?:model\.)*0\.auto_model\.", "", name): tensor for name, tensor in _tensors(path)
    }
    words, width = tensors["embeddings.word_embeddings.weight"].shape
    layers = 1 + max(int(found[1]) for name in tensors if (found := _layer(name)))
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": tensors["encoder.layer.0.intermediate.dense.bias"].shape[0],
        "vocab_size": words,
        "max_position_embeddings": tensors["embeddings.position_embeddings.weight"].shape[0],
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }
    tokenizer = Tokenizer.from_file(str(vocabulary / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return Checkpoint(config, tensors, tokenizer, max_length=128, special=special, normalize=False)


def _block(name: str) -> re.Match[str] | None:
    return re.match(r"encoder\.block\.(\d+)\.", name)


def _layer(name: str) -> re.Match[str] | None:
    return re.match(r"encoder\.layer\.(\d+)\.", name)


def _tensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    graph = onnx.load(str(path)).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for name in stored:
        base = name.removesuffix("_quantized")
        if not name.startswith("onnx::") and (base != name or not name.endswith(_PARTS)):
            yield base, _torch(_read(stored, base))
    for node in graph.node:
        name = _weight(node)
        if name in stored:
            values = _read(stored, name.removesuffix("_quantized"))
            layer = re.sub(r"/MatMul(?:_quant)?$", "", node.name).strip("/").replace("/", ".")
            yield f"{layer}.weight", _torch(values.T)


def _weight(node: Any) -> str:
    """Return the initialiser that a product of matrices multiplies with, if it is one."""
    return str(node.input[1]) if node.op_type in ("MatMul", "MatMulInteger") else ""


def _read(stored: dict[str, np.ndarray], base: str) -> np.ndarray:
    if base in stored:
        return stored[base]
    scale, zero = stored[f"{base}_scale"], stored[f"{base}_zero_point"]
    return from_scaled(stored[f"{base}_quantized"], scale, zero)


def _torch(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32, order="C"))
