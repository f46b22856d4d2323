"""Checkpoints that look at images and run as transformers runs them: what they are, if they can."""

import importlib.util
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.generic.families import FAMILIES
from sie_mcp.adapters.models.transformers_library import knows, read_config
from sie_mcp.adapters.models.transformers_model import TRANSFORMERS
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

_PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def is_generic(config: dict[str, Any]) -> bool:
    """Whether config.json is that of such a model."""
    return config.get("model_type") in FAMILIES


def read_generic(name: str, files: Files, config: dict[str, Any]) -> Recipe:
    """Read the folder of a model that looks at images.

    Raises:
        ModelLoadFailed: something that it needs is missing, or it brings its own code.
    """
    model_type = str(config["model_type"])
    family = FAMILIES[model_type]
    if config.get("auto_map"):
        raise ModelLoadFailed(
            f"{name}: config.json names code of its own (auto_map), which never runs for "
            f"{model_type!r}; use a repository converted for transformers' own "
            f"{family.class_name}"
        )
    if not knows(model_type):
        raise ModelLoadFailed(f"the installed transformers has no {model_type!r}; update it")
    lacking = [one for one in ("PIL", *family.packages) if importlib.util.find_spec(one) is None]
    if lacking:
        more = " ".join(family.packages)
        raise ModelLoadFailed(
            f"{name} needs {' and '.join(lacking)}: pip install 'sie-mcp[images]' {more}"
        )
    if not any(files.has(one) for one in _PROCESSORS):
        raise ModelLoadFailed(
            f"{name} has none of {', '.join(_PROCESSORS)}: what are images to it?"
        )
    if not files.has("tokenizer.json"):
        raise ModelLoadFailed(f"{name} has no tokenizer.json; put one into its folder")
    files.decide("tasks", family.task, "config.json")
    files.decide("architecture", f"{TRANSFORMERS} {family.class_name}", "config.json")
    read = read_config(name, files.folder, runs_own_code=False)
    max_length = None
    if family.task == "pages":
        # What the file leaves to the library included.
        config = {**config, "embedding_dim": int(read.embedding_dim)}
        max_length = int(read.get_text_config().max_position_embeddings)
        files.decide("max_length", max_length, "config.json max_position_embeddings")
    return Recipe(
        name=name,
        folder=files.folder,
        architecture=TRANSFORMERS,
        config=config,
        tasks=(family.task,),
        max_length=max_length,
    )
