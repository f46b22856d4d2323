"""BGE-M3: two more linear layers beside an encoder, for words' weights and for token vectors.

Source: Chen et al. 2024; file names and rules as in FlagEmbedding.
"""

from dataclasses import replace

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.recipe import MultivectorRule, Projection, ProjectionInput, Recipe
from sie_mcp.adapters.tensors import open_file
from sie_mcp.errors import ModelLoadFailed

_SUFFIXES = (".safetensors", ".pt")
_WORDS, _VECTORS = "sparse_linear", "colbert_linear"


def is_m3(files: Files) -> bool:
    """Whether both layers lie in the folder."""
    return all(_file(files, name) for name in (_WORDS, _VECTORS))


def with_m3(files: Files, recipe: Recipe) -> Recipe:
    """Add both outputs to a dense recipe, and the score that all three make."""
    words = _projection(files, _WORDS, "token_weights", "relu")
    vectors = _projection(files, _VECTORS, "token_embeddings", "identity")
    hidden_size = int(recipe.config["hidden_size"])
    for one in (words, vectors):
        if one.in_features != hidden_size or (one is words and one.out_features != 1):
            raise ModelLoadFailed(
                f"{one.file}: a weight of {one.out_features} x {one.in_features} does not fit "
                f"hidden states of {hidden_size}"
            )
    files.decide("sparse", "weights of the text's own tokens", words.file)
    files.decide("multivector", "all tokens but the first", vectors.file)
    return replace(
        recipe,
        tasks=("dense", "sparse", "multivector"),
        projections=(*recipe.projections, words, vectors),
        weighs_tokens=True,
        multivector=MultivectorRule(drops_first=True),
        similarity="meanmaxsim",
        score_weights={"dense": 1.0, "sparse": 1.0, "multivector": 1.0},
    )


def _projection(files: Files, name: str, input_name: ProjectionInput, act: str) -> Projection:
    file = _file(files, name)
    source = open_file(files.folder / file)
    if "weight" not in source.names():
        raise ModelLoadFailed(f"{file} has no 'weight'")
    out_features, in_features = source.shape("weight")
    return Projection(
        folder=files.folder,
        in_features=in_features,
        out_features=out_features,
        has_bias="bias" in source.names(),
        activation=act,
        input_name=input_name,
        file=file,
        stored_as="",
    )


def _file(files: Files, name: str) -> str:
    return next((name + suffix for suffix in _SUFFIXES if files.has(name + suffix)), "")
