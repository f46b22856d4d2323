"""Whether a folder holds a whole checkpoint, judged by its own files. Reads no weights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WEIGHTS = (".safetensors", ".bin", ".onnx")
_OWN_LIBRARY = ("gliner_config.json", "glirel_config.json")
_SETTINGS = ("config.json", "modules.json", *_OWN_LIBRARY)
_HEADS = ("ForSequenceClassification", "ForTokenClassification")
_WITHOUT_FILES = {"Normalize", "Dropout"}  # Modules whose folder may be empty, thus absent in git.


def missing_part(folder: Path) -> str:
    """Return what the checkpoint in `folder` lacks, in a few words; empty if nothing is missing."""
    if not any((folder / one).is_file() for one in _SETTINGS):
        return "no config.json"
    if not any(_weight_files(folder)):
        return "no weights (safetensors, pytorch_model.bin or ONNX)"
    for shard in _shards(folder):
        if not shard.is_file():
            return f"no {shard.relative_to(folder)}"
    for module in _module_folders(folder):
        if not (module / "config.json").is_file():
            return f"no {module.relative_to(folder)}/config.json"
    return ""


def is_evidently_whole(folder: Path) -> bool:
    """Judge a folder that another program filled, perhaps with only the files it needed itself.

    Libraries that know nothing of pooling fetch no modules.json; such a folder would load and give
    other vectors. So only folders whose own files say how the model ends are accepted.
    """
    if missing_part(folder):
        return False
    if any((folder / one).is_file() for one in _OWN_LIBRARY):
        return True  # Its own library fetches all of it; a tokenizer it may never have had.
    if not (folder / "tokenizer.json").is_file():
        return False
    if not any(file.suffix == ".safetensors" for file in _weight_files(folder)):
        return False
    if (folder / "modules.json").is_file():
        return True
    config = _read_json(folder / "config.json")
    names = (config.get("architectures") if isinstance(config, dict) else None) or [""]
    return str(names[0]).endswith(_HEADS)


def _weight_files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.suffix in _WEIGHTS and file.is_file())


def _shards(folder: Path) -> Iterator[Path]:
    for index in folder.rglob("*.index.json"):
        content = _read_json(index)
        weight_map = content.get("weight_map") if isinstance(content, dict) else None
        if isinstance(weight_map, dict):
            yield from (index.parent / str(name) for name in sorted(set(weight_map.values())))


def _module_folders(folder: Path) -> Iterator[Path]:
    modules = _read_json(folder / "modules.json")
    for module in modules if isinstance(modules, list) else []:
        path, kind = str(module.get("path", "")), str(module.get("type", "")).rpartition(".")[2]
        if path and kind not in _WITHOUT_FILES:
            yield folder / path


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None  # Absent or broken: what reads the checkpoint later names the file.
