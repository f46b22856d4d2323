"""What a row of the table of parity says, and what most rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VOCAB_SIZE = 200


@dataclass(frozen=True)
class Dialect:
    """The same checkpoint in other words: what is changed after the reference has saved it.

    Attributes:
        tensors: Part of a name (regex) -> the other; "name#0", "name#1" become one tensor.
        config: Keys of config.json that are set.
        dropped: Keys that are not there.
    """

    tensors: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One family.

    Attributes:
        name: model_type in config.json, and what is special where a family has several rows.
        config_class: The reference's configuration class, by name.
        config: Its arguments; small numbers.
        classes: Task -> the reference's class, by name. "dense" is the bare encoder.
        tokenizer: Which special tokens surround a text: "bert" ([CLS] a [SEP], pairs with type
            ids), "roberta" (<s> a </s></s> b </s>, padding token 1), "eos" (a </s>), "bos"
            (<s> a) or "clip" (<s> a </s>, the last of all ids, with which it also pads).
        reference: "module:class" of our own where the library has none; then `config` is what
            config.json says, model_type included, and the class takes it.
        pooling: What the saved modules.json asks for; "": there is none, the model makes a text's
            vector itself, and token vectors are not served.
        fills_up: The reference is given texts padded to all its positions, and no mask.
        library: Module with the reference's classes; transformers has the same methods as ours.
        keeps_original_names: False: tensors are named as the reference's modules, where it knows
            an older spelling that it would write.
        dialect: What is changed in the saved files.
        packed: The architecture is ours; False: transformers runs it.
        sees_padding: The reference itself gives other numbers beside padding: it runs text by text.
    """

    name: str
    config_class: str
    config: Mapping[str, Any]
    classes: Mapping[str, str]
    tokenizer: str = "bert"
    pooling: str = "mean"
    reference: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    library: str = "transformers"
    keeps_original_names: bool = True
    dialect: Dialect | None = None
    packed: bool = True
    fills_up: bool = False
    sees_padding: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return what "dense" is compared by."""
        return ("dense", "multivector") if self.pooling else ("dense",)

    @property
    def max_length(self) -> int:
        """Return the most tokens of a text."""
        config = self.config.get("text_config", self.config)
        positions: int = config.get("max_position_embeddings", 160)
        return positions - self.extra.get("position_offset", 0)


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
