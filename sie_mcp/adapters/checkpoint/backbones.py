"""The encoder inside a GLiNER or GLiREL checkpoint, its tokenizer, and how much it reads.

Older checkpoints name their encoder and leave its settings, its tokenizer and the size of its
vocabulary out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.gliner_settings import BACKBONES, CONFIG
from sie_mcp.adapters.checkpoint.lengths import position_limit
from sie_mcp.adapters.gliner.architecture import ENCODER, table_names
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.models.transformers_library import filled_config
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.catalogue.entries import Task
from sie_mcp.errors import ModelLoadFailed

# Tokens a word, where neither positions nor the tokenizer limit a sequence.
_TOKENS_PER_WORD = 4


@dataclass(frozen=True, slots=True)
class Backbone:
    """What reads a checkpoint's words."""

    architecture: str
    config: dict[str, Any]
    tokenizer_folder: Path
    max_length: int


def read_backbone(
    name: str,
    files: Files,
    settings: dict[str, Any],
    tokenizer_folder: Path | None,
    *,
    task: Task,
    source_name: str = CONFIG,
) -> Backbone:
    """Return a checkpoint's encoder of words, and say what was decided by which file.

    Args:
        name: What the caller asked for.
        files: The folder.
        settings: Of the file `source_name`.
        tokenizer_folder: Where the tokenizer may lie that the folder lacks.
        task: What the checkpoint is for.
        source_name: For decisions and errors.

    Raises:
        ModelLoadFailed: an encoder or a tokenizer that is not served.
    """
    architecture, config = read_encoder(
        name,
        files,
        settings,
        ENCODER,
        key="encoder_config",
        name_key="model_name",
        source_name=source_name,
    )
    own = _tokenizer_folder(name, files.folder, tokenizer_folder, settings)
    max_length = _max_length(files, own, architecture, config, settings)
    files.decide("tasks", task, source_name)
    files.decide("architecture", architecture, source_name)
    files.decide("words", f"at most {settings.get('max_len', 384)} a window", source_name)
    files.decide("max_length", max_length, "positions, tokenizer, or 4 tokens a word")
    return Backbone(architecture, config, own, max_length)


def read_encoder(
    name: str,
    files: Files,
    settings: dict[str, Any],
    prefix: str,
    *,
    key: str,
    name_key: str,
    source_name: str = CONFIG,
) -> tuple[str, dict[str, Any]]:
    """Return an encoder's architecture and config, as many words as its table in the file has.

    Args:
        name: What the caller asked for.
        files: The folder.
        settings: Of the file `source_name`; they describe the encoder under `key`, or name it
            under `name_key`.
        prefix: What stands before the encoder's tensors.
        key: See `settings`.
        name_key: See `settings`.
        source_name: For errors.

    Raises:
        ModelLoadFailed: an encoder that is not described, not known or not served.
    """
    given = settings.get(key) or BACKBONES.get(str(settings.get(name_key)))
    if given is None:
        raise ModelLoadFailed(
            f"{source_name}: it has no {key}, and {name_key} {settings.get(name_key)!r} is not "
            f"known here; known: {', '.join(BACKBONES)}"
        )
    model_type = str(given.get("model_type", "deberta-v2"))
    if model_type not in ARCHITECTURES or model_type in ("static", "clip", "siglip"):
        raise ModelLoadFailed(
            f"{source_name}: {key} is of model_type {model_type!r}, which has no form here"
        )
    row = ARCHITECTURES[model_type]
    config = filled_config(name, {**given, "model_type": model_type})
    config |= {ours: config[own] for own, ours in row.config_names.items() if own in config}
    source = open_tensors(files.folder)
    tables = [one for one in source.names() if one.startswith(prefix) and table_names(one)]
    if not tables:
        raise ModelLoadFailed(f"{source.label} has no word table under {prefix}")
    config["vocab_size"] = source.shape(tables[0])[0]
    return model_type, config


def said_length(files: Files) -> int | None:
    """Return the most tokens that a tokenizer says its model reads; None: it says nothing."""
    said = files.read("tokenizer_config.json").get("model_max_length")
    return int(said) if said is not None and 0 < float(said) < 1_000_000 else None


def _tokenizer_folder(
    name: str, folder: Path, other: Path | None, settings: dict[str, Any]
) -> Path:
    """Return the first of two folders that has a tokenizer.

    Raises:
        ModelLoadFailed: neither has; names whose would do.
    """
    for one in (folder, other):
        if one is not None and (one / "tokenizer.json").is_file():
            return one
    raise ModelLoadFailed(
        f"{name}: it has no tokenizer.json; put that of {settings.get('model_name')} into "
        "its folder"
    )


def _max_length(
    files: Files, folder: Path, architecture: str, config: dict[str, Any], settings: dict[str, Any]
) -> int:
    """Return the most tokens of a sequence: the reference's limits, or what words rarely meet."""
    limits = [said_length(Files(folder))]
    if config.get("position_biased_input", True) or not config.get("relative_attention"):
        limits.append(position_limit(config, ARCHITECTURES[architecture]))
    default = _TOKENS_PER_WORD * int(settings.get("max_len", 384))
    return min((one for one in limits if one is not None), default=default)
