"""Writing a checkpoint in the form that a hub repository has. Knows files, no models."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

_TYPES = "sentence_transformers.models"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a converted model is written from.

    Attributes:
        max_length: Tokens of a sequence, special tokens included.
        special: The tokenizer's tokens by role, e.g. {"pad_token": "<pad>"}.
        prompts: By name, for config_sentence_transformers.json.
        normalize: A Normalize module follows the mean pooling.
    """

    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    tokenizer: Tokenizer
    max_length: int
    special: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    normalize: bool = True


def read(folder: Path) -> Checkpoint:
    """Read a folder of this form back, to make another of it."""

    def content(name: str) -> dict[str, Any]:
        path = folder / name
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}

    settings = content("tokenizer_config.json")
    tokens = {name: one for name, one in settings.items() if name.endswith("_token")}
    return Checkpoint(
        config=content("config.json"),
        tensors=load_file(folder / "model.safetensors"),
        tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
        max_length=content("sentence_bert_config.json")["max_seq_length"],
        special={name: one for name, one in tokens.items() if isinstance(one, str)},
        prompts=content("config_sentence_transformers.json").get("prompts", {}),
    )


def write(checkpoint: Checkpoint, folder: Path) -> Path:
    """Write config, weights, tokenizer and a pipeline with mean pooling; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if checkpoint.normalize else [])]
    write_pipeline(folder, kinds)
    sizes = checkpoint.config
    width = sizes.get("hidden_size", sizes.get("d_model", sizes.get("dim")))
    pooling = {"embedding_dimension": width, "pooling_mode": "mean", "include_prompt": True}
    write_json(folder / "1_Pooling/config.json", pooling)
    write_encoder(checkpoint, folder)
    return folder


def write_encoder(checkpoint: Checkpoint, folder: Path) -> None:
    """Write all but the pipeline."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", dict(checkpoint.config))
    tensors = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint.tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": checkpoint.max_length,
        **checkpoint.special,
    }
    write_json(folder / "tokenizer_config.json", settings)
    lengths = {"max_seq_length": checkpoint.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", lengths)
    if checkpoint.prompts:
        settings = {"prompts": dict(checkpoint.prompts), "similarity_fn_name": "cosine"}
        write_json(folder / "config_sentence_transformers.json", settings)


def write_pipeline(folder: Path, kinds: list[str]) -> None:
    """Write modules.json; the first module lies in the folder itself."""
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": "" if place == 0 else f"{place}_{kind}",
            "type": f"{_TYPES}.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)


def write_json(path: Path, content: Any) -> None:
    """Write one JSON file, and the folders on its way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
