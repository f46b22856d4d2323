"""What a checkpoint calls a tensor, and where that tensor goes among ours."""

import math
import re

from sie_mcp.adapters.model import Architecture, Renames
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import TensorSource
from sie_mcp.errors import ModelLoadFailed

_LEGACY = ((".gamma", ".weight"), (".beta", ".bias"))


def plan_of(
    source: TensorSource, architecture: Architecture, recipe: Recipe
) -> dict[str, list[str]]:
    """Return for each parameter of ours the checkpoint's tensors to concatenate, in order."""
    found: dict[str, dict[int, str]] = {}
    for name in source.names():
        target = target_of(name, architecture, recipe)
        if target is None:
            continue
        base, _, part = target.partition("#")
        found.setdefault(base, {})[int(part or 0)] = name
    plan = {base: [parts[index] for index in sorted(parts)] for base, parts in found.items()}
    # The largest first: a tensor is held twice while it is copied, best when little else is held.
    sizes = {base: sum(math.prod(source.shape(one)) for one in plan[base]) for base in plan}
    return dict(sorted(plan.items(), key=lambda item: -sizes[item[0]]))


def target_of(name: str, architecture: Architecture, recipe: Recipe) -> str | None:
    """Return our name for a checkpoint's tensor; None for one that may stay unused."""
    if any(name.startswith(one) for one in _among_others(recipe)):
        return None
    clean = _without_legacy(name.removeprefix(recipe.tensor_prefix))
    bare = _without_prefix(clean, architecture.prefixes)
    for task in recipe.head_tasks:
        head = architecture.head(task)
        renamed = head and (_rename(clean, head.renames) or _rename(bare, head.renames))
        if renamed:
            return f"heads.{task}.{renamed}"
    if recipe.images is not None and architecture.vision is not None:
        renamed = _rename(clean, architecture.vision.renames)
        if renamed is not None:
            return f"vision.{renamed}"
    renamed = _rename(bare, architecture.renames)
    if renamed is not None:
        return f"encoder.{renamed}"
    if any(re.fullmatch(pattern, bare) for pattern in architecture.ignored):
        return None
    if bare == "linear.weight" and recipe.projections:
        return None  # Stanford ColBERT keeps its projection among the encoder's tensors.
    raise ModelLoadFailed(f"tensor {name!r} is unknown to architecture {recipe.architecture!r}")


def _among_others(recipe: Recipe) -> list[str]:
    """Return what projections are called that a checkpoint keeps among the encoder's tensors."""
    heads = (one for one in recipe.projections if one.input_name == "keep_logits")
    return [one.stored_as for one in heads if not one.file]


def _without_legacy(name: str) -> str:
    """Return the name as it is spelled today."""
    for old, new in _LEGACY:
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _without_prefix(name: str, prefixes: tuple[str, ...]) -> str:
    """Return the name without the first prefix that it has."""
    for prefix in prefixes:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _rename(name: str, renames: Renames) -> str | None:
    for pattern, replacement in renames:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(replacement)
    return None


def tied_parameters(
    source: TensorSource, architecture: Architecture, recipe: Recipe
) -> dict[str, str]:
    """Return our parameters that the checkpoint leaves out, and those that they equal."""
    present = plan_of(source, architecture, recipe).keys()
    tied: dict[str, str] = {}
    for task in recipe.head_tasks:
        head = architecture.head(task)
        for own, other in (head.tied if head else {}).items():
            if f"heads.{task}.{own}" not in present:
                tied[f"heads.{task}.{own}"] = other
    return tied


def last_layer(source: TensorSource, architecture: Architecture, recipe: Recipe) -> str:
    """Return the tensor that makes logits: the word table where there is none of its own."""
    bare = {_without_prefix(name, architecture.prefixes): name for name in source.names()}
    if "lm_head.weight" in bare:
        return bare["lm_head.weight"]
    tables = [name for name in bare if _rename(name, architecture.renames) == "word.weight"]
    if not tables:
        raise ModelLoadFailed(
            f"{source.label} has no lm_head.weight, and no word table: "
            f"{recipe.name} cannot score by a word"
        )
    return bare[tables[0]]
