"""The table of architectures: a row says how transformers builds the same family.

To cover another architecture, add a row; no test names one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import nn
from transformers import PretrainedConfig

from sie_mcp.catalogue.entries import Task
from tests.tiny import bert_config, randomise, save_tokenizer, wordpiece


@dataclass(frozen=True)
class Family:
    """A row.

    Attributes:
        architecture: Our name, a key of ARCHITECTURES.
        config: Builds a tiny transformers config; takes changes.
        classes: For each head that the family has, transformers' class; "encoder" always.
        tokenizer: Builds the family's tokenizer.
        changes: Variants of the config that need the same guarantees, by name.
    """

    architecture: str
    config: Callable[..., PretrainedConfig]
    classes: Mapping[str, str]
    tokenizer: Callable[[], Tokenizer] = wordpiece
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


FAMILIES = (
    Family(
        architecture="bert",
        config=bert_config,
        classes={
            "encoder": "BertModel",
            "sparse": "BertForMaskedLM",
            "cross_encoder": "BertForSequenceClassification",
            "token_classification": "BertForTokenClassification",
        },
        changes={
            "tanh gelu": {"hidden_act": "gelu_new"},
            "relu": {"hidden_act": "relu"},
            "one token type": {"type_vocab_size": 1},
            "large epsilon": {"layer_norm_eps": 1e-2},
            "one layer, one head": {"num_hidden_layers": 1, "num_attention_heads": 1},
        },
    ),
)


@dataclass(frozen=True)
class Case:
    """One family with one head and one variant of its config."""

    family: Family
    task: str
    variant: str = ""

    def __str__(self) -> str:
        return " ".join(one for one in (self.family.architecture, self.task, self.variant) if one)

    def save(self, folder: Path, **changes: Any) -> nn.Module:
        """Write the checkpoint and return transformers' own model, eager attention."""
        own = self.family.changes[self.variant] if self.variant else {}
        config = self.family.config(**{**own, **changes})
        config._attn_implementation = "eager"
        model = getattr(transformers, self.family.classes[self.task])(config)
        randomise(model)
        model.save_pretrained(folder)
        save_tokenizer(folder, self.family.tokenizer())
        return model  # type: ignore[no-any-return]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return what a catalogue entry would say; () where the files say it."""
        return ("sparse",) if self.task == "sparse" else ()


def cases(*tasks: str, variants: bool = False) -> list[Any]:
    """Return pytest parameters: every family that has one of the heads."""
    found = []
    for family in FAMILIES:
        for task in tasks:
            if task in family.classes:
                found.append(Case(family, task))
                if variants:
                    found += [Case(family, task, name) for name in family.changes]
    return found


def padded(
    model: nn.Module, sequences: list[Any], multiple: int = 1
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return what transformers is given for our sequences, padded, and which places are real."""
    longest = max(len(one.input_ids) for one in sequences)
    longest = -(-longest // multiple) * multiple
    ids = torch.full((len(sequences), longest), model.config.pad_token_id or 0)
    types = torch.zeros_like(ids)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(sequences):
        length = len(one.input_ids)
        ids[row, :length] = torch.from_numpy(one.input_ids)
        mask[row, :length] = 1
        if one.token_type_ids is not None:
            types[row, :length] = torch.from_numpy(one.token_type_ids)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = types
    return inputs, mask.bool()
