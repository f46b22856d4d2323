"""Filling a module with a checkpoint's tensors, each under its own name, one at a time."""

from collections.abc import Mapping

import torch
from torch import nn

from sie_mcp.adapters.model import Architecture, row_ids
from sie_mcp.adapters.recipe import Projection, Recipe
from sie_mcp.adapters.tensor_names import last_layer, plan_of, tied_parameters
from sie_mcp.adapters.tensors import TensorSource, open_file, open_tensors
from sie_mcp.errors import ModelLoadFailed


def fill(
    module: nn.Module,
    source: TensorSource,
    architecture: Architecture,
    recipe: Recipe,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    """Give every parameter of a module made on the meta device its tensor.

    Raises:
        ModelLoadFailed: a parameter without a tensor, a tensor without a use, a wrong shape.
    """
    plan = plan_of(source, architecture, recipe)
    parameters = dict(module.named_parameters())
    filled: set[str] = set()
    for target, names in plan.items():
        if target not in parameters:
            raise ModelLoadFailed(f"{source.label}: {names[0]} has no place in {recipe.name}")
        parts = [source.get(name) for name in names]
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        _set(module, target, tensor, parameters[target], source.label, device, dtype)
        filled.add(target)
    for own, other in tied_parameters(source, architecture, recipe).items():
        _assign(module, own, module.get_parameter(other))
        filled.add(own)
    missing = sorted(
        name
        for name in parameters.keys() - filled
        if not name.startswith(("projections.", "rows."))
    )
    if missing:
        raise ModelLoadFailed(f"{source.label} lacks the weights of {', '.join(missing[:3])}")
    _fill_projections(module, recipe, device=device, dtype=dtype)
    if recipe.logit_score is not None:
        name = last_layer(source, architecture, recipe)
        rows = source.get(name)[row_ids(recipe.logit_score)]
        _set(module, "rows.weight", rows, parameters["rows.weight"], source.label, device, dtype)


def _set(
    module: nn.Module,
    name: str,
    tensor: torch.Tensor,
    parameter: nn.Parameter,
    label: str,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    if tensor.shape != parameter.shape:
        origin = "id2label in config.json" if name.startswith("heads.") else "config.json"
        raise ModelLoadFailed(
            f"{label}: {name} has shape {list(tensor.shape)}, {origin} asks for "
            f"{list(parameter.shape)}"
        )
    wanted = dtype if tensor.is_floating_point() else tensor.dtype
    if not parameter.is_floating_point():
        wanted = parameter.dtype
    # A copy: a view would keep the whole mapped file alive.
    placed = tensor.to(device=device, dtype=wanted, copy=True)
    _assign(module, name, nn.Parameter(placed, requires_grad=False))


def _assign(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(owner), attribute, parameter)


def _fill_projections(
    module: nn.Module, recipe: Recipe, *, device: torch.device, dtype: torch.dtype
) -> None:
    """Fill the Dense modules from their own folders."""
    for index, projection in enumerate(recipe.projections):
        source = _open_projection(projection)
        wanted: Mapping[str, nn.Parameter] = dict(
            module.get_submodule(f"projections.{index}").named_parameters()
        )
        for name, parameter in wanted.items():
            stored = name.replace("linear.", projection.stored_as, 1)
            if stored not in source.names():
                where = f"{projection.folder.name}/{source.label}"
                raise ModelLoadFailed(f"{where} has no {stored!r}")
            target = f"projections.{index}.{name}"
            _set(module, target, source.get(stored), parameter, source.label, device, dtype)


def _open_projection(projection: Projection) -> TensorSource:
    if projection.file:
        return open_file(projection.folder / projection.file)
    return open_tensors(projection.folder)
