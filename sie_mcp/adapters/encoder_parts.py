"""What an encoder is joined of: a head for each kind of vector, and how two texts are compared."""

import importlib

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.card import dims_of
from sie_mcp.adapters.dense import DenseOutput
from sie_mcp.adapters.encode import EncodeAdapter
from sie_mcp.adapters.image_labels import ImageLabelsAdapter
from sie_mcp.adapters.late_interaction import MultivectorOutput
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.matching import Matching, read_matching
from sie_mcp.adapters.model import Architecture, Model
from sie_mcp.adapters.muvera import MuveraOutput
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.similarity import (
    Compare,
    Comparison,
    Similarity,
    dots,
    maxsims,
    sparse_dots,
)
from sie_mcp.adapters.sparse import SparseOutput
from sie_mcp.adapters.static_queries import StaticQueries
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.adapters.text_frame import TextFrame
from sie_mcp.adapters.token_weights import TokenWeightsOutput
from sie_mcp.adapters.tokenizer import TextTokenizer


def make_encoder(loaded: Loaded, architecture: Architecture) -> Adapter:
    """Join what makes vectors, and what reads images where the model does."""
    recipe, model, tokenizer = loaded.recipe, loaded.model, loaded.tokenizer
    queries = None
    if recipe.query_weights is not None:
        queries = StaticQueries(recipe.query_weights, tokenizer, recipe.config["vocab_size"])
    outputs = _outputs(recipe, model, tokenizer, queries)
    matching = read_matching(open_tensors(recipe.folder), architecture, recipe)
    similarity = _similarity(recipe, outputs, matching)
    if recipe.images is None or matching is None:
        return EncodeAdapter(loaded, outputs, similarity, queries)
    # Only here: who serves no images need not have Pillow.
    pictures = importlib.import_module("sie_mcp.adapters.pictures").PictureReader(recipe.images)
    vectors = EncodeAdapter(loaded, outputs, similarity, pictures=pictures)
    return ImageLabelsAdapter(vectors, matching)


def _outputs(
    recipe: Recipe, model: Model, tokenizer: TextTokenizer, queries: StaticQueries | None
) -> dict[str, Output]:
    dims = dims_of(recipe)
    outputs: dict[str, Output] = {}
    for task in recipe.tasks:
        if task == "dense":
            rule = recipe.features
            frame = None if rule is None else TextFrame(recipe, rule, tokenizer)
            outputs[task] = DenseOutput(recipe, model, dims[task], frame)
        elif task == "sparse":
            outputs[task] = _sparse(recipe, model, tokenizer, queries)
        elif task == "multivector":
            vectors = MultivectorOutput(recipe, model, tokenizer, dims[task])
            outputs[task], outputs["muvera"] = vectors, MuveraOutput(vectors)
    return outputs


def _sparse(
    recipe: Recipe, model: Model, tokenizer: TextTokenizer, queries: StaticQueries | None
) -> Output:
    if not recipe.weighs_tokens:
        return SparseOutput(recipe, model, queries)
    padding = recipe.config.get("pad_token_id")
    special = tokenizer.special_ids() | ({padding} if isinstance(padding, int) else set())
    return TokenWeightsOutput(recipe, model, special)


def _similarity(
    recipe: Recipe, outputs: dict[str, Output], matching: Matching | None
) -> Similarity:
    """Choose how the model scores: token vectors first, they find the right passage more often."""
    compare: dict[wire.VectorType, Compare] = {
        "multivector": maxsims,
        "sparse": sparse_dots,
        "dense": dots,
    }
    comparisons: dict[str, Comparison] = {
        name: Comparison(
            outputs[name].result,
            compare[name],
            scored="maxsim" if name == "multivector" else "",
            is_mean=name == "multivector" and recipe.similarity == "meanmaxsim",
        )
        for name in compare
        if name in outputs
    }
    own = [name for name in compare if name in comparisons]
    weights = {name: recipe.score_weights[name] for name in own if name in recipe.score_weights}
    return Similarity(comparisons, weights or {own[0]: 1.0}, matching)
