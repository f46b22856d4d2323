"""A model's card: what a recipe can do, how wide its outputs are, and why. Reads no file."""

from collections.abc import Iterable

from sie_mcp import wire
from sie_mcp.adapters.kept import LABELS
from sie_mcp.adapters.models.transformers_model import TRANSFORMERS
from sie_mcp.adapters.muvera import muvera_dims
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tags import OUTSIDE, Tag
from sie_mcp.catalogue.entries import Task

_PRODUCTS = {
    "cross_encoder": ("score",),
    "classification": ("classifications",),
    "token_classification": ("entities",),
    "pruning": ("entities",),
    "zero_shot": ("classifications",),
    "structure": ("entities", "relations", "classifications", "records"),
    "gliner": ("entities",),
    "glirel": ("relations",),
    "detection": ("objects",),
    "description": ("text",),
    "pages": ("multivector", "muvera"),
}
_PRIMITIVES = {
    "dense": ("encode", "score"),
    "sparse": ("encode", "score"),
    "multivector": ("encode", "score"),
    "cross_encoder": ("score",),
    "classification": ("extract", "score"),
    "token_classification": ("extract",),
    "pruning": ("extract",),
    "zero_shot": ("extract",),
    "structure": ("extract",),
    "gliner": ("extract",),
    "glirel": ("extract",),
    "detection": ("extract",),
    "description": ("extract",),
    "pages": ("encode", "score"),
}
# What reads images and nothing else.
_SEEING = ("detection", "description")
# What transformers runs whole, images' processor included.
_WHOLE = (*_SEEING, "pages")


def describe(recipe: Recipe) -> wire.ModelCard:
    """Return the model's card: what it can do and why each number is what it is."""
    dims = dims_of(recipe)
    # The heads of an encoder share its primitives; others have their own.
    tasks = recipe.tasks[:1] if dims else recipe.tasks
    primitives = dict.fromkeys(one for task in tasks for one in _PRIMITIVES[task])
    outputs = sorted(dims) or products_of(tasks)
    if recipe.gliner is not None and recipe.gliner.relations is not None:
        outputs.append("relations")
    inputs = ["image"] if recipe.tasks[0] in _SEEING else ["text"]
    if recipe.tasks[0] == "pages":
        inputs.append("image")
    if recipe.images is not None:
        inputs, primitives = ["text", "image"], dict.fromkeys([*primitives, "extract"])
        outputs = ["classifications", *outputs]
    return wire.ModelCard(
        name=recipe.name,
        inputs=inputs,
        outputs=outputs,
        primitives=list(primitives),
        dims=dims,
        labels=_labels(recipe),
        loras=list(recipe.loras),
        max_sequence_length=recipe.max_length,
        packed=is_packed(recipe),
        licence=recipe.licence or None,
        description=recipe.description or None,
        decisions=dict(recipe.decisions),
        profiles={name: one.model_dump() for name, one in recipe.profiles.items()},
    )


def products_of(tasks: Iterable[Task]) -> list[str]:
    """Return what a model of these tasks gives; vectors are called as their tasks are."""
    return [one for task in tasks for one in _PRODUCTS.get(task, (task,))]


def runs_whole(recipe: Recipe) -> bool:
    """Whether it looks at images and transformers runs all of it."""
    return recipe.tasks[0] in _WHOLE


def is_packed(recipe: Recipe) -> bool:
    """Whether an architecture of ours runs it, not transformers."""
    return recipe.architecture != TRANSFORMERS


def dims_of(recipe: Recipe) -> dict[str, int]:
    """Return the width of each output that the recipe offers."""
    dims: dict[str, int] = {}
    for task in recipe.tasks:
        if task == "sparse":
            dims[task] = recipe.config["vocab_size"]
        elif task in ("dense", "multivector"):
            is_dense = task == "dense"
            kind = "sentence_embedding" if is_dense else "token_embeddings"
            width = recipe.pooled_size if is_dense else recipe.config["hidden_size"]
            own = [one for one in recipe.projections if one.input_name == kind]
            dims[task] = own[-1].out_features if own else width
        elif task == "pages":
            dims["multivector"] = recipe.config["embedding_dim"]
        if "multivector" in dims:
            dims["muvera"] = muvera_dims(wire.MuveraOptions())
    return dims


def _labels(recipe: Recipe) -> list[str] | None:
    if recipe.tasks[0] == "classification":
        return list(recipe.labels)
    if "pruning" in recipe.tasks:
        return list(LABELS)
    if recipe.tasks[0] != "token_classification":
        return None
    return sorted({Tag.parse(label).label for label in recipe.labels} - {OUTSIDE})
