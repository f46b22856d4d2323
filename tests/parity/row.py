"""What a row of the table of parity says, and what most rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VOCAB_SIZE = 200


@dataclass(frozen=True)
class Row:
    """One family.

    Attributes:
        name: model_type in config.json, and what is special where a family has several rows.
        config_class: The reference's configuration class, by name.
        config: Its arguments; small numbers.
        classes: Task -> the reference's class, by name. "dense" is the bare encoder.
        tokenizer: Which special tokens surround a text: "bert" ([CLS] a [SEP], pairs with type
            ids), "roberta" (<s> a </s></s> b </s>, padding token 1), "eos" (a </s>) or "bos"
            (<s> a).
        reference: "module:class" of our own where the library has none; then `config` is what
            config.json says, model_type included, and the class takes it.
        pooling: What the saved modules.json asks for.
    """

    name: str
    config_class: str
    config: Mapping[str, Any]
    classes: Mapping[str, str]
    tokenizer: str = "bert"
    pooling: str = "mean"
    reference: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


SMALL = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 160,
}


def tasks(prefix: str) -> dict[str, str]:
    """Name a family's four classes as transformers does."""
    return {
        "dense": f"{prefix}Model",
        "sparse": f"{prefix}ForMaskedLM",
        "cross_encoder": f"{prefix}ForSequenceClassification",
        "token_classification": f"{prefix}ForTokenClassification",
    }


# Wide enough that attention is not uniform and every bias and position matters.
BERT = {**SMALL, "initializer_range": 0.2}
