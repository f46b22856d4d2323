"""Pruners: a cross-encoder and one more head, which tells of every token whether it is kept.

The head is a file of its own beside the cross-encoder's, or in a folder of its own: two linear
layers with a gelu between them, as stablebridge-pruner-highlighter has them.
"""

from dataclasses import replace
from pathlib import Path

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.recipe import Projection, Recipe
from sie_mcp.adapters.tensors import TensorSource, open_file
from sie_mcp.catalogue.entries import Entry, Profile
from sie_mcp.errors import ModelLoadFailed

HEAD_FILES = ("pruning_head.safetensors", "pruning_head.pt")
DEFAULT = "default"
_WRAPPER = "pruning_head."
# The places of both layers in torch's Sequential; between them are gelu and dropout.
_LAYERS = ("classifier.0.", "classifier.3.")


def head_file(folder: Path, entry: Entry | None = None) -> str:
    """Return the name of the head's file in a folder; "" where there is none."""
    return next((one for one in _names(entry) if (folder / one).is_file()), "")


def _names(entry: Entry | None) -> tuple[str, ...]:
    named = (source.file for source in entry.sources if source.file) if entry else ()
    return (*named, *HEAD_FILES)


def with_pruning(files: Files, recipe: Recipe, entry: Entry | None, folder: Path) -> Recipe:
    """Add the head and its thresholds to a cross-encoder's recipe.

    Args:
        files: The cross-encoder's.
        recipe: What they say.
        entry: What the catalogue knows.
        folder: Where the head lies.

    Raises:
        ModelLoadFailed: no head, or one that does not fit; names file and tensor.
    """
    if len(recipe.labels) != 1:
        raise ModelLoadFailed(
            f"{recipe.name}: a pruner stands on a cross-encoder of one label; config.json has "
            f"{', '.join(recipe.labels) or 'none'}"
        )
    name = head_file(folder, entry)
    if not name:
        raise ModelLoadFailed(
            f"{recipe.name} has no pruning head; expected {' or '.join(_names(entry))}"
        )
    layers = _read_layers(files, folder, name)
    check_width(layers, int(recipe.config["hidden_size"]), 1)
    files.decide("pruning", f"a head {layers[0].out_features} wide", name)
    recipe = replace(recipe, projections=(*recipe.projections, *layers))
    return with_profiles(files, recipe, entry, Profile(threshold=0.5))


def with_profiles(
    files: Files, recipe: Recipe, entry: Entry | None, default: Profile, origin: str = "default"
) -> Recipe:
    """Add thresholds: the catalogue's, or the default."""
    profiles = dict(entry.profiles) if entry is not None else {}
    if DEFAULT not in profiles:
        profiles[DEFAULT] = default
    else:
        origin = "catalogue"
    files.decide("threshold", profiles[DEFAULT].threshold, origin)
    return replace(recipe, profiles=profiles)


def check_width(layers: tuple[Projection, ...], hidden_size: int, num_outputs: int) -> None:
    """Refuse layers that do not follow each other from hidden states to the outputs.

    Raises:
        ModelLoadFailed: names the layer and both widths.
    """
    width = hidden_size
    for layer in layers:
        if layer.in_features != width:
            raise ModelLoadFailed(
                f"{layer.file or 'config.json'}: {layer.stored_as}weight reads "
                f"{layer.in_features} numbers, what is before it is {width} wide"
            )
        width = layer.out_features
    if width != num_outputs:
        raise ModelLoadFailed(
            f"{layers[-1].file or 'config.json'}: a pruning head of {width} outputs is not "
            f"supported; supported: {num_outputs}"
        )


def _read_layers(files: Files, folder: Path, name: str) -> tuple[Projection, ...]:
    source = open_file(folder / name)
    names = set(source.names())
    wrapper = _WRAPPER if any(one.startswith(_WRAPPER) for one in names) else ""
    own = {one for one in names if one.startswith(wrapper)}
    wanted = {f"{wrapper}{layer}{kind}" for layer in _LAYERS for kind in ("weight", "bias")}
    if own != wanted:
        raise ModelLoadFailed(
            f"{name} holds {', '.join(sorted(own)[:6])}; a pruning head has "
            f"{', '.join(sorted(wanted))}"
        )
    if others := names - own:
        # A frozen cross-encoder that training saved along; the checkpoint's own is read.
        files.decide("left_out", f"{len(others)} tensors beside the pruning head", name)
    return tuple(
        _layer(folder, name, source, f"{wrapper}{layer}", activation)
        for layer, activation in zip(_LAYERS, ("gelu", "identity"), strict=True)
    )


def _layer(
    folder: Path, file: str, source: TensorSource, stored_as: str, activation: str
) -> Projection:
    shape = source.shape(f"{stored_as}weight")
    if len(shape) != 2:
        raise ModelLoadFailed(f"{file}: {stored_as}weight of shape {shape} is no matrix")
    out_features, in_features = shape
    return Projection(
        folder=folder,
        in_features=in_features,
        out_features=out_features,
        has_bias=True,
        activation=activation,
        input_name="keep_logits",
        file=file,
        stored_as=stored_as,
    )
