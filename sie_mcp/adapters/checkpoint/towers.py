"""CLIP, SigLIP and SigLIP 2: settings of the tower for texts, and how its vector comes about.

Two towers keep theirs apart in config.json; those of images are read in `images`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.modules import Pipeline, check_widths
from sie_mcp.adapters.model import Architecture, TextFeatures
from sie_mcp.adapters.recipe import FeatureRule, Recipe
from sie_mcp.catalogue.entries import Task
from sie_mcp.errors import ModelLoadFailed

_TOKENIZER, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
# Settings of the model as a whole: a tower that was once alone may have kept others.
_OF_BOTH = ("model_type", "architectures", "projection_dim")
# transformers wrote this id into every CLIP, whatever its vocabulary, until mid-2023.
_LEGACY_END = 2


def with_tower(config: Mapping[str, Any], row: Architecture) -> dict[str, Any]:
    """Return the config with the text tower's settings, and the defaults of what it leaves out.

    Raises:
        ModelLoadFailed: the tower for texts is of another family.
    """
    if row.text_features is None:
        return dict(config)
    # The older of the two keys wins, with the defaults of all it does not say.
    older = config.get("text_config_dict")
    nested = older if isinstance(older, dict) else config.get("text_config")
    if not isinstance(nested, dict):
        return {**row.config_defaults, **config}
    kind, expected = nested.get("model_type"), f"{config.get('model_type')}_text_model"
    if kind not in (None, expected):
        raise ModelLoadFailed(
            f"config.json: a text_config of model_type {kind!r} is not supported; "
            f"supported: {expected!r}"
        )
    own = {key: config[key] for key in _OF_BOTH if key in config}
    return {**config, **row.config_defaults, **nested, **own}


def only_dense(name: str, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Return what such a model can do: its token vectors mean nothing beside an image's.

    Raises:
        ModelLoadFailed: it is made for something else.
    """
    if tasks[0] != "dense":
        raise ModelLoadFailed(f"{name} is for {tasks[0]}, which is not supported: dense is")
    return ("dense",)


def with_features(
    files: Files, recipe: Recipe, features: TextFeatures, pipeline: Pipeline | None
) -> Recipe:
    """Add how the text's vector is made, what happens to the text before, and what follows.

    Raises:
        ModelLoadFailed: a pipeline that reads the tower's states itself, padding that is not
            served, or an end-of-text token that is none.
    """
    files.decide("pooling", "of the model's own", "config.json model_type")
    rule = FeatureRule(features.size(recipe.config))
    if features.is_padded:
        recipe = _with_cleaning(files, recipe)
        length = int(recipe.config["max_position_embeddings"])
        files.decide("padding", f"to {length} tokens", "as in training")
        rule = replace(rule, pads_to=length, padding_token=_padding_token(Files(recipe.folder)))
    else:
        rule = replace(rule, end_id=_end_id(recipe.config))
    recipe = replace(recipe, features=rule, pooling=("lasttoken",))
    return recipe if pipeline is None else _with_pipeline(files, recipe, pipeline)


def _with_pipeline(files: Files, recipe: Recipe, pipeline: Pipeline) -> Recipe:
    """Add the modules that may follow the model."""
    inputs = {one.input_name for one in pipeline.projections}
    if pipeline.pooling or inputs - {"sentence_embedding"}:
        raise ModelLoadFailed(
            f"{recipe.name}: modules.json pools or projects token vectors of "
            f"{recipe.config['model_type']}, which makes its vector by itself"
        )
    recipe = replace(recipe, projections=pipeline.projections, normalize=pipeline.normalize)
    check_widths(files, recipe)
    return recipe


def _end_id(config: Mapping[str, Any]) -> int | None:
    found = config["eos_token_id"]
    if not isinstance(found, int):
        raise ModelLoadFailed(f"config.json: eos_token_id {found!r} is no id, the vector needs one")
    return None if found == _LEGACY_END else found


def _padding_token(files: Files) -> str:
    settings = files.read(_TOKENIZER)
    if settings.get("padding_side", "right") != "right":
        raise ModelLoadFailed(f"{_TOKENIZER}: padding_side must be 'right', as in training")
    value = settings.get("pad_token") or files.read(_SPECIAL).get("pad_token")
    token = value.get("content") if isinstance(value, dict) else value
    if not isinstance(token, str):
        raise ModelLoadFailed(f"{_TOKENIZER} names no pad_token, which texts are filled up with")
    return token


def _with_cleaning(files: Files, recipe: Recipe) -> Recipe:
    """Add what the family's own tokenizer does to a text, whether tokenizer.json says so or not."""
    settings = Files(recipe.folder).read(_TOKENIZER)
    second = str(recipe.config.get("model_type")).startswith("siglip2")
    kind = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    if second or kind == "Siglip2Tokenizer":
        files.decide("lower_case", True, "as in training")
        return replace(recipe, do_lower_case=True)
    is_first = kind == "SiglipTokenizer"
    lowers = bool(settings.get("do_lower_case", is_first)) or recipe.do_lower_case
    files.decide("lower_case", lowers, _TOKENIZER)
    return replace(recipe, do_lower_case=lowers, drops_punctuation=is_first)
