"""The low-rank adapters that config.json says lie in the checkpoint's own tensors, one a task.

Source: Jina's embeddings v3; keys as in the authors' configuration_xlm_roberta.py. Its other keys
(lora_dropout_p, lora_main_params_trainable, load_trained_adapters) matter in training alone.
"""

from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.tasks import LABELLED
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.catalogue.entries import Task
from sie_mcp.errors import ModelLoadFailed

_KEY, _INSTRUCTIONS = "lora_adaptations", "task_instructions"


def read_adaptations(
    files: Files, config: Config, tasks: tuple[Task, ...], row: Architecture
) -> dict[str, str]:
    """Return the text that goes in front of an item, by the name of each adapter, in their order.

    None where config.json names none, or where they are of no use: a classifier has no task to
    choose, and its authors' code uses none.

    Raises:
        ModelLoadFailed: names that are none, or that have no text.
    """
    names = config.get(_KEY)
    if not names:
        return {}
    if not _are_names(names):
        raise ModelLoadFailed(f"config.json: {_KEY} {names!r} must be a list of different names")
    if tasks[0] in LABELLED or not row.serves_lora:
        files.decide("loras", f"not applied: {', '.join(names)}", f"config.json {_KEY}")
        return {}
    _check_scale(config)
    files.decide("loras", ", ".join(names), f"config.json {_KEY}")
    return _texts(config, names)


def _are_names(value: Any) -> bool:
    is_list = isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    return is_list and len(set(value)) == len(value)


def _check_scale(config: Config) -> None:
    for key in ("lora_rank", "lora_alpha"):
        value = config.get(key, 1)
        if not isinstance(value, int | float) or not value > 0:
            raise ModelLoadFailed(f"config.json: {key} {value!r} must be a number over 0")


def _texts(config: Config, names: list[str]) -> dict[str, str]:
    texts = config.get(_INSTRUCTIONS)
    if not isinstance(texts, dict):
        texts = {}
    if texts.keys() != set(names) or not all(isinstance(one, str) for one in texts.values()):
        raise ModelLoadFailed(f"config.json: {_INSTRUCTIONS} must give each of {_KEY} its text")
    return {name: texts[name] for name in names}
