"""A tiny Jina v3 with adapters of its own, and the reference with each of them in its weights.

The reference is transformers' port, which knows no adapters: their products are added to the
tensors that it reads.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import JinaEmbeddingsV3Model

from tests.parity.checkpoints import rewrite, save, write_json
from tests.parity.row import Dialect
from tests.parity.table import ROWS

# Texts of words that the tokenizer knows.
INSTRUCTIONS = {
    "retrieval.query": "stone river ",
    "retrieval.passage": "w7 ",
    "separation": "",
    "classification": "",
    "text-matching": "",
}
NAMES = list(INSTRUCTIONS)
RANK, ALPHA = 4, 6
CONFIG = {
    "lora_adaptations": NAMES,
    "task_instructions": INSTRUCTIONS,
    "lora_rank": RANK,
    "lora_alpha": ALPHA,
    "lora_dropout_p": 0.0,
    "lora_main_params_trainable": False,
    "load_trained_adapters": True,
    "auto_map": {
        "AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"
    },
}
BY_NAME = {row.name: row for row in ROWS}
OWN, PORT = BY_NAME["xlm-roberta-rotary"], BY_NAME["jina_embeddings_v3"]
_MATRICES = ("Wqkv", "out_proj", "fc1", "fc2", "pooler.dense")
_TABLES = ("word_embeddings", "token_type_embeddings")
Tensors = dict[str, torch.Tensor]


def save_tasks(folder: Path, *, num_types: int = 1) -> dict[str, Any]:
    """Save the checkpoint as its authors do; return the reference of each task, "" for none."""
    plain = folder.with_name(f"{folder.name}-plain")
    for row, place in ((PORT, plain), (OWN, folder)):
        save(replace(row, config={**row.config, "type_vocab_size": num_types}), "dense", place)
    tensors = load_file(plain / "model.safetensors")
    stacks: Tensors = {}
    merged = {name: dict(tensors) for name in NAMES}
    for layer, a, b in _stacks(tensors):
        stem = f"{layer}.parametrizations.weight.0.lora_"
        stacks |= {f"{stem}A": a, f"{stem}B": b}
        products = a @ b if layer.endswith(_TABLES) else b @ a
        for name, product in zip(NAMES, products, strict=True):
            merged[name][f"{layer}.weight"] = tensors[f"{layer}.weight"] + product * (ALPHA / RANK)
    weights = folder / "model.safetensors"
    stored = load_file(weights) | stacks
    save_file({f"roberta.{name}": one for name, one in stored.items()}, weights)
    rewrite(folder, Dialect(config=CONFIG))
    modules = json.loads((folder / "modules.json").read_text())
    modules[0] |= {"type": "custom_st.Transformer", "kwargs": ["task"]}
    write_json(folder / "modules.json", modules)
    return {name: _reference(plain, own) for name, own in ({"": tensors} | merged).items()}


def _stacks(tensors: Tensors) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yield each layer that is adapted, and random A and B of all tasks."""
    generator = torch.Generator().manual_seed(3)
    for name, tensor in tensors.items():
        layer = name.removesuffix(".weight")
        first, last = tensor.shape[0], tensor.shape[-1]
        if name == layer or not layer.endswith((*_MATRICES, *_TABLES)):
            continue
        shapes = [(RANK, last), (first, RANK)]
        if layer.endswith(_TABLES):
            shapes.reverse()
        a, b = (torch.randn((len(NAMES), *one), generator=generator) * 0.15 for one in shapes)
        yield layer, a, b


def _reference(folder: Path, tensors: Tensors) -> Any:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return JinaEmbeddingsV3Model.from_pretrained(folder, attn_implementation="eager").eval()
