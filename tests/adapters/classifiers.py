"""Tiny classifiers of whole texts, and what their reference says."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertForSequenceClassification

from sie_mcp.adapters.adapter import Adapter
from tests.tiny import bert_config, save_model

TOLERANCE = 1e-5
TEXTS = ["alpha beta gamma", "hello", "the " * 300, "what is machine learning"]
MOODS = ["sad", "Glad", "mixed"]
MNLI = ["contradiction", "neutral", "entailment"]


def save_classifier(folder: Path, labels: list[str], **changes: Any) -> Any:
    config = bert_config(
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        **changes,
    )
    return save_model(folder, BertForSequenceClassification(config))


def logits_of(model: Any, adapter: Adapter, request: Any) -> np.ndarray:
    """Return the reference's logits of our own sequences, `(num_sequences, num_labels)`."""
    rows = []
    for one in adapter.prepare(request).sequences:
        ids = torch.from_numpy(one.input_ids)[None]
        types = torch.zeros_like(ids)
        if one.token_type_ids is not None:
            types = torch.from_numpy(one.token_type_ids)[None]
        with torch.no_grad():
            rows.append(model(ids, token_type_ids=types).logits[0].double().numpy())
    return np.stack(rows)


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def by_label(item: Any) -> dict[str, float]:
    return {one.label: one.score for one in item.classifications}
