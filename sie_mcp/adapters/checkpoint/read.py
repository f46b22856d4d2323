"""Decide what a checkpoint is, from its own files; the catalogue fills what files cannot say.

Anything unknown is an error: a wrong vector is worse than a refusal.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sie_mcp.adapters.checkpoint import gliclass, gliner2, multivector
from sie_mcp.adapters.checkpoint.adaptations import read_adaptations
from sie_mcp.adapters.checkpoint.architecture import check_library_serves, choose_architecture
from sie_mcp.adapters.checkpoint.direction import with_direction
from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.generic import is_generic, read_generic
from sie_mcp.adapters.checkpoint.gliner import read_gliner
from sie_mcp.adapters.checkpoint.gliner_settings import CONFIG as GLINER
from sie_mcp.adapters.checkpoint.glirel import CONFIG as GLIREL
from sie_mcp.adapters.checkpoint.glirel import read_glirel
from sie_mcp.adapters.checkpoint.images import with_images
from sie_mcp.adapters.checkpoint.lengths import position_limit, read_max_length
from sie_mcp.adapters.checkpoint.logit_score import RELEVANT, read_logit_score
from sie_mcp.adapters.checkpoint.m3 import is_m3, with_m3
from sie_mcp.adapters.checkpoint.modules import Pipeline, check_widths, read_pipeline
from sie_mcp.adapters.checkpoint.provence import is_provence, unwrap, with_provence
from sie_mcp.adapters.checkpoint.pruning import with_pruning
from sie_mcp.adapters.checkpoint.scores import read_labels, with_score
from sie_mcp.adapters.checkpoint.settings import with_prompts, with_settings
from sie_mcp.adapters.checkpoint.static import is_model2vec, read_static
from sie_mcp.adapters.checkpoint.tasks import (
    LABELLED,
    SENTENCE_TRANSFORMERS,
    SEQUENCE_HEADS,
    check_heads,
    read_tasks,
)
from sie_mcp.adapters.checkpoint.towers import only_dense, with_features, with_tower
from sie_mcp.adapters.models.layer_types import is_causal
from sie_mcp.adapters.models.transformers_model import TRANSFORMERS
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.catalogue.entries import Entry

# OpenSearch's inference-free models keep the queries' weights here, token by token.
_IDF = "idf.json"


def read_recipe(
    name: str,
    folder: Path,
    entry: Entry | None,
    *,
    may_run_code: bool = False,
    head_folder: Path | None = None,
) -> Recipe:
    """Read a folder.

    Args:
        name: What the caller asked for.
        folder: Where the files lie.
        entry: What the catalogue knows of it.
        may_run_code: Code that the checkpoint brings may run, where nothing of ours serves it.
        head_folder: Where a head of its own lies that the folder lacks, or a tokenizer.

    Raises:
        ModelLoadFailed: not a checkpoint that we can serve; names file, key and value.
    """
    files = Files(folder)
    if files.has(GLINER) or files.has(GLIREL):
        read = read_gliner if files.has(GLINER) else read_glirel
        recipe = _known(read(name, files, head_folder), entry)
        return replace(recipe, decisions=dict(files.decisions))
    pipeline = read_pipeline(files)
    config = _config(files, pipeline)
    if pipeline is None and is_generic(config):
        recipe = _known(read_generic(name, files, config), entry)
        return replace(recipe, decisions=dict(files.decisions))
    if _is_static(files, pipeline, config):
        recipe = read_static(name, files, config, pipeline)
    else:
        recipe = _read_encoder(name, files, config, pipeline, entry, may_run_code=may_run_code)
    recipe = with_settings(files, recipe)
    if recipe.tasks[0] == "dense" and is_m3(files):
        recipe = with_m3(files, recipe)
    if "pruning" in recipe.tasks and is_provence(recipe.config):
        recipe = with_provence(files, recipe, entry)
    elif "pruning" in recipe.tasks:
        recipe = with_pruning(files, recipe, entry, head_folder or folder)
    if "zero_shot" in recipe.tasks:
        recipe = gliclass.with_gliclass(files, recipe)
    if "structure" in recipe.tasks:
        recipe = gliner2.with_gliner2(files, recipe)
    recipe = with_prompts(files, recipe, entry)
    recipe = _known(recipe, entry)
    files.decide("tasks", ", ".join(recipe.tasks), files.decisions.pop("_tasks", "files"))
    return replace(recipe, decisions=dict(files.decisions))


def _known(recipe: Recipe, entry: Entry | None) -> Recipe:
    """Add what the catalogue says of the model for people."""
    if entry is None:
        return recipe
    return replace(recipe, licence=entry.licence, description=entry.description)


def _config(files: Files, pipeline: Pipeline | None) -> dict[str, Any]:
    path = pipeline.transformer_path if pipeline else ""
    name = f"{path}/config.json" if path else "config.json"
    config = files.read(name)
    text = config.get("text_config")
    if isinstance(text, dict):
        return {**text, **config}
    return gliner2.unwrap(files, gliclass.unwrap(unwrap(config)))


def _is_static(files: Files, pipeline: Pipeline | None, config: dict[str, Any]) -> bool:
    if pipeline is not None and pipeline.is_static:
        return True
    if is_model2vec(config):
        return True
    return not config and files.has("tokenizer.json") and files.has("model.safetensors")


def _read_encoder(
    name: str,
    files: Files,
    config: dict[str, Any],
    pipeline: Pipeline | None,
    entry: Entry | None,
    *,
    may_run_code: bool,
) -> Recipe:
    path = pipeline.transformer_path if pipeline else ""
    folder = files.folder / path if path else files.folder
    architecture, row = choose_architecture(name, files, config, folder, may_run_code=may_run_code)
    config = with_tower(config, row)
    config |= {ours: config[own] for own, ours in row.config_names.items() if own in config}
    config = with_direction(name, files, config, row, entry)
    logit_score = read_logit_score(files, config, pipeline, entry)
    tasks, origin = read_tasks(files, config, pipeline, entry)
    if logit_score is not None:
        tasks, origin = ("cross_encoder",), "catalogue" if pipeline is None else "modules.json"
    if row.text_features is not None:
        tasks = only_dense(name, tasks)
    files.decisions["_tasks"] = origin
    check_heads(name, config, tasks, row)
    labels = read_labels(config) if tasks[0] in LABELLED else ()
    if logit_score is not None:
        labels = RELEVANT
    recipe = Recipe(
        name=name,
        folder=folder,
        architecture=architecture,
        config=config,
        tasks=tasks,
        max_length=read_max_length(files, config, path, entry, row),
        do_lower_case=_lower_case(files, path),
        labels=labels,
        logit_score=logit_score,
        loras=read_adaptations(files, config, tasks, row),
        runs_own_code=architecture == TRANSFORMERS and bool(config.get("auto_map")),
    )
    if architecture == TRANSFORMERS:
        check_library_serves(files, recipe)
    if row.text_features is not None:
        recipe = with_features(files, recipe, row.text_features, pipeline)
        recipe = with_images(files, recipe, row)
    else:
        recipe = _with_pipeline(files, recipe, pipeline)
    if tasks[0] in SEQUENCE_HEADS:
        recipe = with_score(files, recipe, row.head(tasks[0]), entry)
    rule = multivector.within_positions(recipe.multivector, position_limit(config, row))
    return replace(recipe, multivector=rule)


def _lower_case(files: Files, path: str) -> bool:
    name = f"{path}/sentence_bert_config.json" if path else "sentence_bert_config.json"
    return bool(files.read(name).get("do_lower_case", False))


def _with_pipeline(files: Files, recipe: Recipe, pipeline: Pipeline | None) -> Recipe:
    """Add pooling, projections, normalisation, and the rules of late interaction."""
    if pipeline is None:
        return _without_pipeline(files, recipe)
    recipe = replace(
        recipe,
        pooling=pipeline.pooling or ("mean",),
        include_prompt=pipeline.include_prompt,
        projections=pipeline.projections,
        normalize=pipeline.normalize,
    )
    check_widths(files, recipe)
    if pipeline.splade is not None:
        recipe = replace(
            recipe,
            query_weights=_query_weights(files, pipeline),
            sparse_pooling=pipeline.splade.get("pooling_strategy", "max"),
            sparse_activation=pipeline.splade.get("activation_function", "relu"),
        )
    settings = files.read(SENTENCE_TRANSFORMERS)
    if recipe.tasks[0] != "multivector":
        return recipe
    if settings.get("model_type") == "ColBERT" or "query_prefix" in settings:
        rule, prompts = multivector.read_pylate(files, settings)
        return replace(recipe, multivector=rule, prompts=prompts)
    return replace(recipe, multivector=multivector.read_multi_vector_encoder(files, pipeline))


def _query_weights(files: Files, pipeline: Pipeline) -> Path | None:
    """Return where an inference-free model keeps the weights of queries."""
    if pipeline.query_weights is not None:
        return files.folder / pipeline.query_weights
    if files.has(_IDF):
        files.decide("queries", "weights of their tokens, no forward pass", _IDF)
        return files.folder / _IDF
    return None


def _without_pipeline(files: Files, recipe: Recipe) -> Recipe:
    names = recipe.config.get("architectures") or [""]
    if recipe.tasks[0] == "multivector" and names[0] == multivector.STANFORD:
        rule, projection, prompts = multivector.read_stanford(
            files, int(recipe.config["hidden_size"])
        )
        return replace(recipe, multivector=rule, projections=(projection,), prompts=prompts)
    if "dense" not in recipe.tasks:
        return recipe
    if names[0].endswith("ForCausalLM") and is_causal(recipe.config):
        files.decide("pooling", "lasttoken", "default of a causal model without modules.json")
        return replace(recipe, pooling=("lasttoken",))
    files.decide("pooling", "mean", "default of an encoder without modules.json")
    return replace(recipe, pooling=("mean",))
