"""How long a sequence may be: the file's word, within the tokenizer's and the position table's."""

import logging
from collections.abc import Mapping
from typing import Any

from sie_mcp.adapters.checkpoint.files import TRANSFORMER_FILES, Files
from sie_mcp.adapters.model import Architecture
from sie_mcp.catalogue.entries import Entry

logger = logging.getLogger(__name__)

# Tokenizers without a limit say 1e30.
_NO_LIMIT = 1_000_000
_TOKENIZER = "tokenizer_config.json"


def read_max_length(
    files: Files,
    config: Mapping[str, Any],
    path: str,
    entry: Entry | None,
    architecture: Architecture,
) -> int | None:
    """Return the limit in tokens, special tokens included; None where nothing limits."""
    table = position_limit(config, architecture)
    candidates: list[tuple[int | None, str]] = []
    for name in TRANSFORMER_FILES:
        where = f"{path}/{name}" if path else name
        if files.has(where):
            candidates.append((files.read(where).get("max_seq_length"), where))
            break
    if entry is not None and entry.max_length is not None:
        candidates.append((entry.max_length, "catalogue"))
    where = f"{path}/{_TOKENIZER}" if path and files.has(f"{path}/{_TOKENIZER}") else _TOKENIZER
    candidates.append((files.read(where).get("model_max_length"), where))
    for value, origin in candidates:
        if value is not None and 0 < float(value) < _NO_LIMIT:
            limit = int(value) if table is None else min(int(value), table)
            if limit < value:
                logger.warning(
                    "limit over the position table said=%d table=%d origin=%s", value, limit, origin
                )
            files.decide("max_length", limit, origin if limit == value else "position table")
            return limit
    if table is not None:
        files.decide("max_length", table, "config.json")
    return table


def position_limit(config: Mapping[str, Any], architecture: Architecture) -> int | None:
    """Return how many positions the model has; RoBERTa's relatives lose some to an offset."""
    size = config.get("max_position_embeddings")
    if not isinstance(size, int) or size <= 0 or size >= _NO_LIMIT:
        return None
    if architecture.padding_id is None:
        return size
    return size - architecture.padding_id(config) - 1
