"""Sparse vectors of queries without a forward pass: each distinct token has a weight of its own.

Source: Geng et al. 2024 (inference-free retrievers); files as in sentence-transformers'
SparseStaticEmbedding, or OpenSearch's idf.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.sparse_vectors import make_sparse
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.adapters.tokenizer import TextTokenizer, Tokens
from sie_mcp.errors import ModelLoadFailed


class StaticQueries:
    """Weights by token id, and the tokenizer that they are for. Thread-safe.

    Args:
        path: A folder with `weight` in its tensors, or a JSON file from token to weight.
        tokenizer: Of the documents; a folder with a tokenizer of its own has that one.
        dims: Entries of the vocabulary.
    """

    def __init__(self, path: Path, tokenizer: TextTokenizer, dims: int) -> None:
        self._tokenizer = tokenizer
        self.max_length: int | None = None
        if path.is_dir():
            if (path / "tokenizer.json").is_file():
                self._tokenizer = TextTokenizer.from_folder(path)
            self._weights = _weights_of(path)
            self.max_length = _max_length(path)
        else:
            self._weights = _weights_by_token(path, tokenizer.vocabulary, dims)
        if len(self._weights) != dims:
            raise ModelLoadFailed(
                f"{path.name} has {len(self._weights)} weights for a vocabulary of {dims}"
            )

    def tokens(self, texts: list[str], limit: int | None) -> list[Tokens]:
        """Tokenise queries, without special tokens."""
        return self._tokenizer.encode(texts, limit, special_tokens=False)

    def result(self, sequence: Sequence, params: wire.EncodeParams) -> wire.Sparse:
        """Return the weight of each distinct token, zeros left out."""
        ids = np.unique(sequence.input_ids)
        weights = self._weights[ids]
        kept = weights != 0
        return make_sparse(ids[kept].astype(np.int32), weights[kept], len(self._weights), params)


def _weights_of(folder: Path) -> np.ndarray:
    source = open_tensors(folder)
    if "weight" not in source.names():
        raise ModelLoadFailed(f"{folder.name}/{source.label} has no 'weight'")
    weights: np.ndarray = source.get("weight").float().numpy()
    return weights


def _weights_by_token(path: Path, vocabulary: dict[str, int], dims: int) -> np.ndarray:
    content = _read(path)
    weights = np.zeros(dims, np.float32)
    for token, weight in content.items():
        if token not in vocabulary or not isinstance(weight, (int, float)):
            raise ModelLoadFailed(f"{path.name}: {token!r} is no token, or {weight!r} no weight")
        weights[vocabulary[token]] = weight
    return weights


def _max_length(folder: Path) -> int | None:
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return None
    value = _read(path).get("model_max_length")
    # Tokenizers without a limit say 1e30.
    return int(value) if isinstance(value, (int, float)) and 0 < value < 1e6 else None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadFailed(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ModelLoadFailed(f"{path.name} must hold a JSON object")
    return content
