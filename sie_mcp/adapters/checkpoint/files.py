"""Reading a checkpoint's JSON files with errors that name file, key and value."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sie_mcp.errors import ModelLoadFailed

# Before 5.4 sentence-transformers named the file after the model's class.
TRANSFORMER_FILES = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)


class Files:
    """A checkpoint's folder, and the decisions that were read from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.decisions: dict[str, str] = {}

    def decide(self, what: str, value: object, origin: str) -> None:
        """Keep a decision and where it came from, for the model listing."""
        self.decisions[what] = f"{value} ({origin})"

    def has(self, name: str) -> bool:
        """Whether the folder holds this file or folder."""
        return (self.folder / name).exists()

    def read(self, name: str) -> dict[str, Any]:
        """Read a JSON object; a missing file is empty.

        Raises:
            ModelLoadFailed: not JSON, or not an object.
        """
        content = self._load(name)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise ModelLoadFailed(f"{name} must hold a JSON object")
        return content

    def read_list(self, name: str) -> list[dict[str, Any]]:
        """Read a JSON list of objects; a missing file is empty."""
        content = self._load(name)
        if content is None:
            return []
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            raise ModelLoadFailed(f"{name} must hold a JSON list of objects")
        return content

    def required(self, config: Mapping[str, Any], key: str, name: str) -> Any:
        """Return a key that must be there."""
        if key not in config:
            raise ModelLoadFailed(f"{name} has no {key!r}")
        return config[key]

    def _load(self, name: str) -> Any:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelLoadFailed(f"{name} cannot be read: {error}") from error
