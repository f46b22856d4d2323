"""Which architecture reads a checkpoint: one of ours, else transformers, else a refusal.

A checkpoint's own code runs only for models that a setting names, and never in place of ours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.models import transformers_library as library
from sie_mcp.adapters.models.architectures import ARCHITECTURES, BY_POSITIONS
from sie_mcp.adapters.models.transformers_model import TRANSFORMERS, architecture_of
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

SETTING = "SIE_MCP_ALLOW_REMOTE_CODE"
# What a recipe is read from, under the names that the library gives every family.
_KEYS = (
    "hidden_size",
    "vocab_size",
    "max_position_embeddings",
    "pad_token_id",
    "is_encoder_decoder",
)


def choose_architecture(
    name: str, files: Files, config: dict[str, Any], folder: Path, *, may_run_code: bool
) -> tuple[str, Architecture]:
    """Return the architecture's key and row; add to `config` what only the library knows.

    Raises:
        ModelLoadFailed: nobody serves its model_type, or a setting of it, or only its own code.
    """
    model_type = str(config.get("model_type", ""))
    if model_type in ARCHITECTURES:
        own = BY_POSITIONS.get((model_type, str(config.get("position_embedding_type"))), model_type)
        _check_own(name, own, config)
        return own, ARCHITECTURES[own]
    runs_own_code = _runs_own_code(name, config, may_run_code=may_run_code)
    if not runs_own_code and not library.knows(model_type):
        raise ModelLoadFailed(
            f"{name}: config.json says model_type {model_type!r}, which is not supported; "
            f"supported: {', '.join(ARCHITECTURES)}, and text models that the installed "
            "transformers knows"
        )
    _check_files(name, folder, config)
    read = library.read_config(name, folder, runs_own_code=runs_own_code)
    config |= {key: getattr(read, key) for key in _KEYS if hasattr(read, key)}
    origin = f"config.json model_type {model_type!r}, which has no packed form here"
    files.decide("architecture", f"transformers {library.version()}, not packed", origin)
    return TRANSFORMERS, architecture_of(model_type)


def check_library_serves(files: Files, recipe: Recipe) -> None:
    """Refuse tasks for which the library has no class, or that need several.

    Raises:
        ModelLoadFailed: naming the tasks.
    """
    if recipe.logit_score is not None:
        raise ModelLoadFailed(
            f"{recipe.name}: rerankers that score by a word are not served by transformers here"
        )
    if "pruning" in recipe.tasks:
        raise ModelLoadFailed(
            f"{recipe.name}: pruning is not served on {recipe.config.get('model_type')!r}, which "
            "has no packed form here"
        )
    if len({library.AUTO_CLASSES[task] for task in recipe.tasks}) > 1:
        raise ModelLoadFailed(
            f"{recipe.name}: {', '.join(recipe.tasks)} cannot be served at once by transformers"
        )
    if recipe.config.get("is_encoder_decoder"):
        if recipe.tasks[0] == "sparse":
            raise ModelLoadFailed(f"{recipe.name}: sparse vectors of a decoder are not served")
        if recipe.tasks[0] in ("dense", "multivector"):
            files.decide("half", "encoder", "vectors of an encoder-decoder")
    if not recipe.runs_own_code:
        read = library.read_config(recipe.name, recipe.folder, runs_own_code=False)
        library.model_class(recipe.name, read, recipe.tasks[0])


def _check_own(name: str, architecture: str, config: Mapping[str, Any]) -> None:
    """Refuse settings of a family of ours that change what it computes."""
    kinds = ARCHITECTURES[architecture].position_embedding_types
    positions = config.get("position_embedding_type")
    if positions is not None and positions not in kinds:
        raise ModelLoadFailed(
            f"{name}: position_embedding_type {positions!r} is not supported; "
            f"supported: {', '.join(kinds)}"
        )
    if config.get("is_decoder"):
        raise ModelLoadFailed(
            f"{name}: config.json says is_decoder true, a causal form of {architecture} that is "
            "not supported; its vectors would be wrong"
        )


def _runs_own_code(name: str, config: Mapping[str, Any], *, may_run_code: bool) -> bool:
    """Whether the checkpoint brings code for its model_type; where it may not run, refuse."""
    if not config.get("auto_map"):
        return False
    if not may_run_code:
        repo = name.partition("@")[0]
        raise ModelLoadFailed(
            f"{name}: config.json names code of its own (auto_map) for model_type "
            f"{config.get('model_type', '')!r}, and it was not run. If you trust it, put {repo!r} "
            f"into {SETTING}"
        )
    elsewhere = [place for place in _places_of_code(config) if "--" in place]
    if elsewhere:
        raise ModelLoadFailed(f"{name}: auto_map names {elsewhere[0]!r}, in another repository")
    return True


def _places_of_code(config: Mapping[str, Any]) -> list[str]:
    """Return what auto_map names for the library to import, e.g. "modeling_x.XModel"."""
    code = config.get("auto_map") or {}
    if not isinstance(code, dict):
        raise ModelLoadFailed(f"config.json: auto_map must be an object, not {code!r}")
    return [
        str(place) for key, place in code.items() if key.startswith(("AutoConfig", "AutoModel"))
    ]


def _check_files(name: str, folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse what the library would read beside the weights, and code that was not fetched."""
    if config.get("quantization_config"):
        raise ModelLoadFailed(f"{name}: config.json has a quantization_config, which is not served")
    if (folder / "adapter_config.json").is_file():
        raise ModelLoadFailed(f"{name}: adapter_config.json, an adapter, is not served")
    for place in _places_of_code(config):
        file = f"{place.partition('.')[0]}.py"
        if not (folder / file).is_file():
            raise ModelLoadFailed(
                f"{name}: auto_map names {file}, which was not fetched; run `sie-mcp models remove "
                f"{name}`, then `sie-mcp models pull {name}` with {SETTING} set"
            )
