"""Tiny random checkpoints, saved by the reference library in the form a hub repository has."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tests.parity.row import VOCAB_SIZE, Dialect, Row

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "morning", "coffee", "river", "stone", "x"]
NUM_SPECIAL = 5


def save(row: Row, task: str, folder: Path, *, seed: int = 0) -> Any:
    """Save a tiny model for one task; return the reference module, ready to run."""
    torch.manual_seed(seed)
    model = _formula(row, folder) if row.reference else _of_library(row, task, folder)
    make_tokenizer(row.tokenizer).save(str(folder / "tokenizer.json"))
    if row.fills_up:
        write_json(folder / "tokenizer_config.json", {"pad_token": "[PAD]"})
    if task == "dense" and row.pooling:
        write_modules(folder, row.config.get("hidden_size", 32), row.pooling)
    if task == "sparse":
        write_json(folder / "modules.json", _modules("Transformer", "SpladePooling"))
        (folder / "1_SpladePooling").mkdir()
        write_json(folder / "1_SpladePooling/config.json", {"pooling_strategy": "max"})
    return model


def _of_library(row: Row, task: str, folder: Path) -> Any:
    library = importlib.import_module(row.library)
    config = getattr(library, row.config_class)(
        **row.config, pad_token_id=padding_id(row.tokenizer), **_head(task), **row.extra
    )
    # Eager attention: the plain formula, no kernel of its own.
    config._attn_implementation = "eager"
    kind = "cross_encoder" if task == "classification" else task
    model = getattr(library, row.classes[kind])(config).eval()
    spread(model)
    model.save_pretrained(folder, save_original_format=row.keeps_original_names)
    if row.dialect is not None:
        rewrite(folder, row.dialect)
    return model


def _formula(row: Row, folder: Path) -> Any:
    """Save a reference of our own, with the config as it stands in the row."""
    module, name = row.reference.split(":")
    model = getattr(importlib.import_module(module), name)(row.config).eval()
    folder.mkdir(exist_ok=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    write_json(folder / "config.json", dict(row.config))
    return model


def rewrite(folder: Path, dialect: Dialect) -> None:
    """Put a saved checkpoint into other words."""
    weights = folder / "model.safetensors"
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(weights).items():
        for pattern, replacement in dialect.tensors.items():
            name = re.sub(pattern, replacement, name)
        name, _, part = name.partition("#")
        parts.setdefault(name, {})[part] = tensor
    joined = {
        # A lone one may be a number, which cannot be joined.
        name: torch.cat([own[one] for one in sorted(own)]) if len(own) > 1 else own[""]
        for name, own in parts.items()
    }
    save_file(joined, weights, metadata={"format": "pt"})
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **dialect.config}
    write_json(path, {key: config[key] for key in config if key not in dialect.dropped})


def spread(model: torch.nn.Module) -> None:
    """Give zero-initialised biases and unit norms random values: a missing one must show."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name.lower():
            noise = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.data += noise


def _head(task: str) -> dict[str, Any]:
    if task == "cross_encoder":
        return {"num_labels": 1}
    if task == "classification":
        return {"num_labels": 3}
    if task == "token_classification":
        return {"id2label": {0: "O", 1: "B-NAME", 2: "I-NAME"}, "label2id": {"O": 0}}
    return {}


def write_json(path: Path, content: Any) -> None:
    """Write one JSON file."""
    path.write_text(json.dumps(content))


def _modules(*kinds: str) -> list[dict[str, Any]]:
    return [
        {
            "idx": place,
            "name": str(place),
            "path": "" if place == 0 else f"{place}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]


def write_modules(folder: Path, dims: int, pooling: str) -> None:
    """Write a sentence-transformers pipeline: encoder and pooling, in today's dialect."""
    write_json(folder / "modules.json", _modules("Transformer", "Pooling"))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    config = {"embedding_dimension": dims, "pooling_mode": pooling, "include_prompt": True}
    write_json(folder / "1_Pooling/config.json", config)


def padding_id(kind: str) -> int:
    """Return the padding token's id, which places RoBERTa's positions."""
    return 1 if kind == "roberta" else 0


def make_tokenizer(kind: str) -> Tokenizer:
    """Build a word-level tokenizer with the family's special tokens."""
    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    special = [first, last, "[UNK]", "[MASK]"]
    special.insert(padding_id(kind), "[PAD]")
    words = special + WORDS + [f"w{n}" for n in range(VOCAB_SIZE - len(special) - len(WORDS))]
    if kind == "clip":
        words.append(words.pop(words.index(last)))
    vocabulary = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    templates = {
        "bert": (f"{first} $A {last}", f"{first} $A {last} $B:1 {last}:1"),
        "clip": (f"{first} $A {last}", f"{first} $A {last} $B {last}"),
        "roberta": (f"{first} $A {last}", f"{first} $A {last} {last} $B {last}"),
        "eos": (f"$A {last}", f"$A {last} $B {last}"),
        "bos": (f"{first} $A", f"{first} $A $B"),
    }
    single, pair = templates[kind]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(one, vocabulary[one]) for one in (first, last)]
    )
    tokenizer.add_special_tokens(special)
    return tokenizer
