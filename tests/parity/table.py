"""The table of architectures under parity: a row each, and no test code for a new one.

A row is a tiny random model of the reference library (transformers) that is saved and read back by
our loader. `classes` gives the reference class for each task that the family can carry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VOCAB_SIZE = 200


@dataclass(frozen=True)
class Row:
    """One family.

    Attributes:
        name: model_type in config.json.
        config_class: The reference's configuration class, by name.
        config: Its arguments; small numbers.
        classes: Task -> the reference's class, by name. "dense" is the bare encoder.
        tokenizer: Which special tokens surround a text: "bert" ([CLS] a [SEP], pairs with type
            ids), "roberta" (<s> a </s></s> b </s>), "eos" (a </s>) or "bos" (<s> a).
        pooling: What the saved modules.json asks for.
    """

    name: str
    config_class: str
    config: Mapping[str, Any]
    classes: Mapping[str, str]
    tokenizer: str = "bert"
    pooling: str = "mean"
    extra: Mapping[str, Any] = field(default_factory=dict)


_SMALL = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 160,
}

ROWS: tuple[Row, ...] = (
    Row(
        name="bert",
        config_class="BertConfig",
        config={**_SMALL, "initializer_range": 0.2},
        classes={
            "dense": "BertModel",
            "sparse": "BertForMaskedLM",
            "cross_encoder": "BertForSequenceClassification",
            "token_classification": "BertForTokenClassification",
        },
    ),
)
