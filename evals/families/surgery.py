"""Real weights of one architecture in another that computes the same: exact, nothing is trained.

DistilBERT and RoBERTa from BERT, XLM-RoBERTa likewise, Qwen2 and Mistral from Llama, ColBERT from
any encoder. What has no counterpart becomes zero, so this proves names, positions and order, not
that a bias of Qwen2's is added or that a ColBERT was trained.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from evals.families.folders import Checkpoint, write_encoder, write_json, write_pipeline

_POSITIONS = "embeddings.position_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"
_DISTILBERT = (
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.", r"\1.attention.\2."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.", r"\1.attention.out_lin."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.", r"\1.sa_layer_norm."),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.", r"\1.ffn.lin1."),
    (r"encoder\.layer\.(\d+)\.output\.dense\.", r"\1.ffn.lin2."),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.", r"\1.output_layer_norm."),
)
_LINEARS = {"query": "q_lin", "key": "k_lin", "value": "v_lin"}


def to_distilbert(source: Checkpoint) -> Checkpoint:
    """Add the first token type to every position, and rename the rest."""
    own = source.config
    tensors = _encoder(source.tensors)
    first_type = tensors.pop(_TYPES)[0]
    tensors[_POSITIONS] = tensors[_POSITIONS] + first_type
    config = {
        "architectures": ["DistilBertModel"],
        "model_type": "distilbert",
        "vocab_size": own["vocab_size"],
        "max_position_embeddings": own["max_position_embeddings"],
        "dim": own["hidden_size"],
        "n_layers": own["num_hidden_layers"],
        "n_heads": own["num_attention_heads"],
        "hidden_dim": own["intermediate_size"],
        "activation": own["hidden_act"],
        "pad_token_id": own["pad_token_id"],
    }
    renamed = {_distilbert_name(name): tensor for name, tensor in tensors.items()}
    return replace(source, config=config, tensors=renamed)


def to_roberta(source: Checkpoint, model_type: str, class_name: str) -> Checkpoint:
    """Move positions past the padding token's id, and keep the first token type alone."""
    offset = source.config["pad_token_id"] + 1
    tensors = _encoder(source.tensors)
    unused = torch.zeros(offset, tensors[_POSITIONS].shape[1])
    tensors[_POSITIONS] = torch.cat([unused, tensors[_POSITIONS]])
    tensors[_TYPES] = tensors[_TYPES][:1].clone()
    config = {
        **source.config,
        "architectures": [class_name],
        "model_type": model_type,
        "max_position_embeddings": len(tensors[_POSITIONS]),
        "type_vocab_size": 1,
    }
    return replace(source, config=config, tensors=tensors)


def to_qwen2(source: Checkpoint) -> Checkpoint:
    """Add biases of zero to queries, keys and values."""
    tensors = dict(source.tensors)
    for name, tensor in source.tensors.items():
        if re.search(r"\.[qkv]_proj\.weight$", name):
            tensors[name.removesuffix("weight") + "bias"] = torch.zeros(len(tensor))
    config = {**source.config, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    return replace(source, config=config, tensors=tensors)


def to_mistral(source: Checkpoint) -> Checkpoint:
    """Change the name of the class; no window."""
    names = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
    return replace(source, config={**source.config, **names, "sliding_window": None})


def orthonormal(width: int, dims: int) -> torch.Tensor:
    """Return `(dims, width)` rows of a fixed rotation: it keeps angles as well as any can."""
    square = torch.randn(width, width, generator=torch.Generator().manual_seed(0))
    return torch.linalg.qr(square)[0][:dims].contiguous()


def write_colbert(source: Checkpoint, projection: torch.Tensor, folder: Path) -> Path:
    """Write an encoder with a projection of its token vectors; return the folder."""
    write_encoder(source, folder)
    write_pipeline(folder, ["Transformer", "Dense", "Normalize"])
    dims, width = projection.shape
    names = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
    config: dict[str, Any] = {
        "in_features": width,
        "out_features": dims,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    write_json(folder / "1_Dense/config.json", config | names)
    save_file({"linear.weight": projection}, folder / "1_Dense/model.safetensors")
    write_json(folder / "2_Normalize/config.json", names)
    settings = {"model_type": "MultiVectorEncoder", "similarity_fn_name": "maxsim"}
    write_json(folder / "config_sentence_transformers.json", settings)
    return folder


def _encoder(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Leave out what an encoder of vectors does not use."""
    unused = ("pooler.", "embeddings.position_ids")
    return {name: one for name, one in tensors.items() if not name.startswith(unused)}


def _distilbert_name(name: str) -> str:
    for pattern, ours in _DISTILBERT:
        if found := re.match(pattern, name):
            new = f"transformer.layer.{found.expand(ours)}{name[found.end() :]}"
            return re.sub(r"attention\.(query|key|value)", _linear, new)
    return name


def _linear(found: re.Match[str]) -> str:
    return f"attention.{_LINEARS[found[1]]}"
