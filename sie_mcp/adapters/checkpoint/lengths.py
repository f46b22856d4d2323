"""How long a sequence may be: the file's word, within the tokenizer's and the position table's."""

from collections.abc import Mapping
from typing import Any

from sie_mcp.adapters.checkpoint.files import TRANSFORMER_FILES, Files
from sie_mcp.catalogue.entries import Entry

# Tokenizers without a limit say 1e30.
_NO_LIMIT = 1_000_000


def read_max_length(
    files: Files, config: Mapping[str, Any], path: str, entry: Entry | None
) -> int | None:
    """Return the limit in tokens, special tokens included; None where nothing limits."""
    table = position_limit(config)
    candidates: list[tuple[int | None, str]] = []
    for name in TRANSFORMER_FILES:
        where = f"{path}/{name}" if path else name
        if files.has(where):
            candidates.append((files.read(where).get("max_seq_length"), where))
            break
    if entry is not None and entry.max_length is not None:
        candidates.append((entry.max_length, "catalogue"))
    candidates.append(
        (files.read("tokenizer_config.json").get("model_max_length"), "tokenizer_config.json")
    )
    for value, origin in candidates:
        if value is not None and 0 < float(value) < _NO_LIMIT:
            limit = int(value) if table is None else min(int(value), table)
            files.decide("max_length", limit, origin if limit == value else "position table")
            return limit
    if table is not None:
        files.decide("max_length", table, "config.json")
    return table


def position_limit(config: Mapping[str, Any]) -> int | None:
    """Return how many positions the model has; RoBERTa's relatives lose some to an offset."""
    size = config.get("max_position_embeddings")
    if not isinstance(size, int) or size <= 0 or size >= _NO_LIMIT:
        return None
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        return size - int(config.get("pad_token_id") or 0) - 1
    return size
