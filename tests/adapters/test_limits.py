"""How long a text may be: whose word counts, and what the listing says of it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertModel

from tests.running import dense, encode, load
from tests.tiny import bert_config, change_json, save_model, write_json

TABLE = 2048
TEXTS = ["p " * 600 + "tail one", "p " * 600 + "tail two"]


@pytest.mark.parametrize(
    ("settings", "limit", "origin"),
    [
        ({}, TABLE, "config.json"),
        ({"max_seq_length": 128}, 128, "sentence_bert_config.json"),
        ({"max_seq_length": 4096}, TABLE, "position table"),
    ],
    ids=str,
)
def test_the_files_limit_within_the_position_table(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, Any],
    limit: int,
    origin: str,
) -> None:
    """Case T21: three copies."""
    save_model(tmp_path, BertModel(bert_config(max_position_embeddings=TABLE)))
    change_json(tmp_path, "tokenizer_config.json", model_max_length=10**30)
    write_json(tmp_path, "sentence_bert_config.json", settings)
    with caplog.at_level(logging.WARNING):
        adapter = load(tmp_path)
    assert ("said=4096 table=2048" in caplog.text) == (origin == "position table")
    assert adapter.card.max_sequence_length == limit
    assert adapter.card.decisions["max_length"] == f"{limit} ({origin})"
    first, second = dense(adapter, TEXTS)
    is_cut = limit < TABLE
    assert np.array_equal(first, second) == is_cut
    for item in encode(adapter, TEXTS):
        assert item.truncated == is_cut
        assert (item.num_tokens == limit) == is_cut
