"""Static embeddings: Model2Vec folders and sentence-transformers' StaticEmbedding module."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.modules import Pipeline
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import ModelLoadFailed

# model2vec's own default.
MODEL2VEC_MAX_LENGTH = 512


def is_model2vec(config: Mapping[str, Any]) -> bool:
    """Whether config.json is model2vec's: distilled models name their type, others do not."""
    kind = config.get("model_type")
    return kind == "model2vec" or (kind is None and "normalize" in config)


def read_static(
    name: str, files: Files, config: dict[str, Any], pipeline: Pipeline | None
) -> Recipe:
    """Take sizes from the tensors; a Model2Vec config adds its own rules.

    Raises:
        ModelLoadFailed: no table of vectors in the file.
    """
    path = pipeline.transformer_path if pipeline else ""
    folder = files.folder / path if path else files.folder
    tensors = open_tensors(folder)
    tables = [one for one in tensors.names() if one in ("embeddings", "embedding.weight")]
    if not tables:
        raise ModelLoadFailed(
            f"{name}: model.safetensors has no 'embeddings' or 'embedding.weight'; "
            f"it has: {', '.join(sorted(tensors.names())[:5])}"
        )
    num_vectors, hidden_size = tensors.shape(tables[0])
    sizes: dict[str, Any] = {"num_vectors": num_vectors, "hidden_size": hidden_size}
    for key, tensor in (("num_weights", "weights"), ("num_mapped_tokens", "mapping")):
        sizes[key] = tensors.shape(tensor)[0] if tensor in tensors.names() else 0
    max_length = None
    normalize = pipeline.normalize if pipeline else False
    if is_model2vec(config):
        sizes |= {"drop_unknown": True, "median_token_length": _median_token_length(folder)}
        max_length = config.get("max_length", MODEL2VEC_MAX_LENGTH)  # null: no limit
        normalize = bool(config.get("normalize", normalize))
        files.decide("normalize", normalize, "config.json")
    files.decide("pooling", "mean", "static embeddings")
    return Recipe(
        name=name,
        folder=folder,
        architecture="static",
        config=sizes,
        tasks=("dense",),
        max_length=max_length,
        pooling=("mean",),
        normalize=normalize,
    )


def _median_token_length(folder: Any) -> int:
    vocabulary = TextTokenizer.from_folder(folder).vocabulary
    return int(np.median([len(token) for token in vocabulary]))
