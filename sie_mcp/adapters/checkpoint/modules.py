"""modules.json: the pipeline of a sentence-transformers checkpoint, in any of its generations.

A module's class is told by the last component of its path: the prefixes changed three times.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.pooling import read_pooling
from sie_mcp.adapters.checkpoint.router import expand_router, is_router, kind_of
from sie_mcp.adapters.recipe import PoolingMode, Projection, Recipe
from sie_mcp.errors import ModelLoadFailed

# The last is what models of images and texts had before they were Transformers too.
_ENCODERS = ("Transformer", "MLMTransformer", "CLIPModel")
# What may stand between pooling and normalisation, any number of times.
_LAYERS = ("Dense", "LayerNorm")
# Modules that are settings of a task, and where the pipeline keeps them.
_SETTINGS = {"SpladePooling": "splade", "MultiVectorMask": "mask", "LogitScore": "logit_score"}
TokenOrSentence = Literal["sentence_embedding", "token_embeddings"]


@dataclass(slots=True)
class Pipeline:
    """What modules.json says, collected module by module."""

    kinds: list[str]
    transformer_path: str = ""
    is_static: bool = False
    pooling: tuple[PoolingMode, ...] = ()
    include_prompt: bool = True
    projections: tuple[Projection, ...] = ()
    normalize: bool = False
    splade: dict[str, Any] | None = None
    query_weights: str | None = None
    logit_score: dict[str, Any] | None = None
    mask: dict[str, Any] | None = None

    @property
    def has_vector(self) -> bool:
        """Whether a module so far makes one vector of a text."""
        return bool(self.pooling) or "CLIPModel" in self.kinds


def read_pipeline(files: Files) -> Pipeline | None:
    """Read modules.json; None where there is none.

    Raises:
        ModelLoadFailed: a module that we do not serve, or a bad config of one that we do.
    """
    modules = sorted(files.read_list("modules.json"), key=lambda one: int(one.get("idx", 0)))
    if not modules:
        return None
    query_weights = None
    if is_router(modules):
        modules, query_weights = expand_router(files, modules)
    pipeline = Pipeline(kinds=[kind_of(one) for one in modules], query_weights=query_weights)
    for kind, module in zip(pipeline.kinds, modules, strict=True):
        path = str(module.get("path", "")).strip("./")
        _read_module(files, pipeline, kind, path)
    return pipeline


def check_widths(files: Files, recipe: Recipe) -> None:
    """Refuse projections that cannot follow what is before them.

    Raises:
        ModelLoadFailed: naming the module and both widths.
    """
    hidden_size = int(files.required(recipe.config, "hidden_size", "config.json"))
    widths = {
        "token_embeddings": hidden_size,
        "sentence_embedding": recipe.pooled_size,
    }
    for projection in recipe.projections:
        width = widths[projection.input_name]
        if projection.in_features != width:
            raise ModelLoadFailed(
                f"{projection.folder.name}/config.json: in_features {projection.in_features} "
                f"does not fit what is before it, which is {width} wide"
            )
        widths[projection.input_name] = projection.out_features


def _read_module(files: Files, pipeline: Pipeline, kind: str, path: str) -> None:
    config_name = f"{path}/config.json" if path else "config.json"
    _check_order(pipeline, kind)
    if kind in _ENCODERS:
        pipeline.transformer_path = path
    elif kind == "Pooling":
        pipeline.pooling, pipeline.include_prompt = read_pooling(files, path)
    elif kind == "Dense":
        pipeline.projections += (_read_projection(files, pipeline, path),)
    elif kind == "LayerNorm":
        pipeline.projections += (_read_layer_norm(files, path),)
    elif kind == "Normalize":
        pipeline.normalize = True
        files.decide("normalize", True, "modules.json")
    elif kind == "StaticEmbedding":
        pipeline.is_static = True
        pipeline.transformer_path = path
    elif kind in _SETTINGS:
        setattr(pipeline, _SETTINGS[kind], files.read(config_name))
    elif kind != "Dropout":
        raise ModelLoadFailed(
            f"modules.json: module {kind!r} is not supported; supported: Transformer, CLIPModel, "
            "Pooling, Dense, LayerNorm, Normalize, Router, StaticEmbedding, SpladePooling, "
            "MultiVectorMask, LogitScore, Dropout"
        )


def _check_order(pipeline: Pipeline, kind: str) -> None:
    """Refuse an order that a recipe, which keeps none, would silently change."""
    before = "Normalize" if pipeline.normalize else "Dense" if pipeline.projections else ""
    if before and (kind == "Pooling" or (kind in _LAYERS and before == "Normalize")):
        raise ModelLoadFailed(f"modules.json: {kind} after {before} is not supported")


def _read_layer_norm(files: Files, path: str) -> Projection:
    name = f"{path}/config.json"
    width = int(files.required(files.read(name), "dimension", name))
    return Projection(
        folder=files.folder / path,
        in_features=width,
        out_features=width,
        has_bias=True,
        activation="identity",
        is_norm=True,
    )


def _read_projection(files: Files, pipeline: Pipeline, path: str) -> Projection:
    name = f"{path}/config.json"
    config = files.read(name)
    # Where nothing before makes one vector, it reads token vectors (PyLate writes no input name).
    default: TokenOrSentence = "sentence_embedding" if pipeline.has_vector else "token_embeddings"
    input_name = config.get("module_input_name") or default
    if input_name not in ("sentence_embedding", "token_embeddings"):
        raise ModelLoadFailed(f"{name}: module_input_name {input_name!r} is unknown")
    activation = config.get("activation_function") or "torch.nn.modules.activation.Tanh"
    if not str(activation).startswith("torch."):
        raise ModelLoadFailed(f"{name}: activation_function {activation!r} is not torch's own")
    return Projection(
        folder=files.folder / path,
        in_features=int(files.required(config, "in_features", name)),
        out_features=int(files.required(config, "out_features", name)),
        has_bias=bool(config.get("bias", True)),
        activation=str(activation),
        input_name=input_name,
        has_residual=bool(config.get("use_residual", False)),
    )
