"""Filling a module with a checkpoint's tensors, each under its own name, one at a time."""

from collections.abc import Collection, Mapping

import torch
from torch import nn

from sie_mcp.adapters.flat import DtypeOf, FlatWeights, flatten, plan_places, weights_stream
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear
from sie_mcp.adapters.model import Architecture, row_ids
from sie_mcp.adapters.recipe import Projection, Recipe
from sie_mcp.adapters.tensor_names import last_layer, plan_of, tied_parameters
from sie_mcp.adapters.tensors import TensorSource, open_file, open_tensors
from sie_mcp.errors import ModelLoadFailed


def flat_bytes(
    module: nn.Module,
    source: TensorSource,
    architecture: Architecture,
    recipe: Recipe,
    dtype: torch.dtype,
) -> int:
    """Return what the weights of a module on the meta device will take, before any is read."""
    tied = tied_parameters(source, architecture, recipe)
    dtype_of = _dtypes(source, plan_of(source, architecture, recipe), dtype, ())
    return plan_places(module, dtype_of, tied)[1]


def fill(
    module: nn.Module,
    source: TensorSource,
    architecture: Architecture,
    recipe: Recipe,
    *,
    device: torch.device,
    dtype: torch.dtype,
    kept: Collection[str] = (),
) -> FlatWeights:
    """Put all tensors of a module into one buffer; those on the meta device get the checkpoint's.

    Others keep their values: parameters in `dtype` but for those with a part of their name in
    `kept`, and tables that are computed, such as rotary frequencies, in their own.

    Raises:
        ModelLoadFailed: a parameter without a tensor, a tensor without a use, a wrong shape.
    """
    plan = plan_of(source, architecture, recipe)
    tied = tied_parameters(source, architecture, recipe)
    empty = {name for name, one in module.named_parameters() if one.is_meta}
    for target, names in plan.items():
        if target not in empty:
            raise ModelLoadFailed(f"{source.label}: {names[0]} has no place in {recipe.name}")
    _check_missing(empty - plan.keys() - tied.keys(), source)
    with weights_stream(device):
        weights = flatten(module, device, _dtypes(source, plan, dtype, kept), tied)
        with weights.freed_on_error():
            for target, names in plan.items():
                parts = [source.get(name) for name in names]
                tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
                _copy(module, target, tensor, source.label)
            _tie(module, tied)
            _fill_projections(module, recipe)
            if recipe.logit_score is not None:
                name = last_layer(source, architecture, recipe)
                rows = source.get(name)[row_ids(recipe.logit_score)]
                _copy(module, "rows.weight", rows, source.label)
            weights.settle()
    return weights


def _tie(module: nn.Module, tied: Mapping[str, str]) -> None:
    for own, other in tied.items():
        owner, _, attribute = own.rpartition(".")
        setattr(module.get_submodule(owner), attribute, module.get_parameter(other))


def _check_missing(lacking: Collection[str], source: TensorSource) -> None:
    missing = sorted(name for name in lacking if not name.startswith(("projections.", "rows.")))
    if missing:
        raise ModelLoadFailed(f"{source.label} lacks the weights of {', '.join(missing[:3])}")


def _dtypes(
    source: TensorSource,
    plan: Mapping[str, list[str]],
    dtype: torch.dtype,
    kept: Collection[str],
) -> DtypeOf:
    """Say what each tensor becomes: integers stay what they are in the file."""

    def dtype_of(name: str, tensor: torch.Tensor) -> torch.dtype:
        is_weight = isinstance(tensor, nn.Parameter) and tensor.is_floating_point()
        if not is_weight or tensor.dtype == FLOAT8 or not set(kept).isdisjoint(name.split(".")):
            return tensor.dtype
        stored = source.dtype(plan[name][0]) if name in plan else tensor.dtype
        return dtype if stored.is_floating_point else stored

    return dtype_of


def _copy(module: nn.Module, name: str, tensor: torch.Tensor, label: str) -> None:
    parameter = module.get_parameter(name)
    if tensor.shape != parameter.shape:
        origin = "id2label in config.json" if name.startswith("heads.") else "config.json"
        raise ModelLoadFailed(
            f"{label}: {name} has shape {list(tensor.shape)}, {origin} asks for "
            f"{list(parameter.shape)}"
        )
    owner = module.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, Float8Linear) and parameter is owner.weight:
        owner.put(tensor)
    else:
        parameter.data.copy_(tensor)


def _fill_projections(module: nn.Module, recipe: Recipe) -> None:
    """Fill the Dense modules from their own folders."""
    for index, projection in enumerate(recipe.projections):
        source = _open_projection(projection)
        for name, _ in module.get_submodule(f"projections.{index}").named_parameters():
            stored = name.replace("linear.", projection.stored_as, 1)
            if stored not in source.names():
                where = f"{projection.folder.name}/{source.label}"
                raise ModelLoadFailed(f"{where} has no {stored!r}")
            _copy(module, f"projections.{index}.{name}", source.get(stored), source.label)


def _open_projection(projection: Projection) -> TensorSource:
    if projection.file:
        return open_file(projection.folder / projection.file)
    return open_tensors(projection.folder)
