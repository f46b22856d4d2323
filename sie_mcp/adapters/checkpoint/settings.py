"""config_sentence_transformers.json, and what the catalogue says of prompts beyond it."""

import re
from dataclasses import replace

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.tasks import SENTENCE_TRANSFORMERS
from sie_mcp.adapters.recipe import Recipe, Similarity
from sie_mcp.catalogue.entries import INSTRUCTION, Entry
from sie_mcp.errors import ModelLoadFailed

_SIMILARITIES: tuple[Similarity, ...] = (
    "cosine",
    "dot",
    "euclidean",
    "manhattan",
    "maxsim",
    "meanmaxsim",
)
# How models that follow instructions write their query prompt: the instruction is the middle.
_INSTRUCTED = re.compile(r"(Instruct: ).+(\n ?Query:\s*)", re.DOTALL)


def with_settings(files: Files, recipe: Recipe) -> Recipe:
    """Add prompts, similarity and truncation from config_sentence_transformers.json."""
    settings = files.read(SENTENCE_TRANSFORMERS)
    given = settings.get("prompts") or {}
    prompts = dict(recipe.prompts)
    for name, text in given.items():
        # ColBERT's marker is the prompt so far; a prompt of the file's own stands after it.
        marker = recipe.prompts.get(name, "")
        prompts[str(name)] = marker + str(text or "").removeprefix(marker)
    if prompts:
        files.decide("prompts", sorted(prompts), SENTENCE_TRANSFORMERS)
    similarity = str(settings.get("similarity_fn_name") or "cosine").lower()
    if recipe.tasks[0] == "multivector" and similarity not in ("maxsim", "meanmaxsim"):
        similarity = "maxsim"
    matches = [one for one in _SIMILARITIES if one == similarity]
    if not matches:
        raise ModelLoadFailed(
            f"{SENTENCE_TRANSFORMERS}: similarity_fn_name {similarity!r} is unknown"
        )
    truncate_dim = settings.get("truncate_dim")
    return replace(
        recipe,
        prompts=prompts,
        default_prompt_name=settings.get("default_prompt_name"),
        similarity=matches[0],
        truncate_dim=int(truncate_dim) if truncate_dim else None,
    )


def with_prompts(files: Files, recipe: Recipe, entry: Entry | None) -> Recipe:
    """Add the catalogue's prompts, and how an instruction of the caller's becomes one."""
    if entry is not None and entry.prompts:
        recipe = replace(recipe, prompts={**recipe.prompts, **entry.prompts})
        files.decide("prompts", sorted(recipe.prompts), "catalogue")
    if entry is not None and entry.include_prompt is not None:
        recipe = replace(recipe, include_prompt=entry.include_prompt)
        files.decide("include_prompt", entry.include_prompt, "catalogue")
    if entry is not None and entry.instruction_template:
        template, origin = entry.instruction_template, "catalogue"
    else:
        match = _INSTRUCTED.fullmatch(recipe.prompts.get("query", ""))
        if match is None:
            return recipe
        template, origin = f"{match[1]}{INSTRUCTION}{match[2]}", "the query prompt"
    files.decide("instruction_template", repr(template), origin)
    return replace(recipe, instruction_template=template)
