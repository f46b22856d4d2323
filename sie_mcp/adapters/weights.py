"""Filling a module with a checkpoint's tensors, each under its own name, one at a time."""

import math
import re
from collections.abc import Mapping

import torch
from torch import nn

from sie_mcp.adapters.model import Architecture, Renames
from sie_mcp.adapters.recipe import Projection, Recipe
from sie_mcp.adapters.tensors import TensorSource, open_file, open_tensors
from sie_mcp.errors import ModelLoadFailed

_LEGACY = ((".gamma", ".weight"), (".beta", ".bias"))


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
    plan = _plan(source, architecture, recipe)
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
        name for name in parameters.keys() - filled if not name.startswith("projections.")
    )
    if missing:
        raise ModelLoadFailed(f"{source.label} lacks the weights of {', '.join(missing[:3])}")
    _fill_projections(module, recipe, device=device, dtype=dtype)


def _plan(source: TensorSource, architecture: Architecture, recipe: Recipe) -> dict[str, list[str]]:
    """Return for each parameter of ours the checkpoint's tensors to concatenate, in order."""
    found: dict[str, dict[int, str]] = {}
    for name in source.names():
        target = _target(name, architecture, recipe)
        if target is None:
            continue
        base, _, part = target.partition("#")
        found.setdefault(base, {})[int(part or 0)] = name
    plan = {base: [parts[index] for index in sorted(parts)] for base, parts in found.items()}
    # The largest first: a tensor is held twice while it is copied, best when little else is held.
    sizes = {base: sum(math.prod(source.shape(one)) for one in plan[base]) for base in plan}
    return dict(sorted(plan.items(), key=lambda item: -sizes[item[0]]))


def _target(name: str, architecture: Architecture, recipe: Recipe) -> str | None:
    """Return our name for a checkpoint's tensor; None for one that may stay unused."""
    clean = _without_legacy(name)
    bare = _without_prefix(clean, architecture.prefixes)
    for task in recipe.head_tasks:
        head = architecture.heads.get(task)
        renamed = head and (_rename(clean, head.renames) or _rename(bare, head.renames))
        if renamed:
            return f"heads.{task}.{renamed}"
    renamed = _rename(bare, architecture.renames)
    if renamed is not None:
        return f"encoder.{renamed}"
    if any(re.fullmatch(pattern, bare) for pattern in architecture.ignored):
        return None
    if bare == "linear.weight" and recipe.projections:
        return None  # Stanford ColBERT keeps its projection among the encoder's tensors.
    raise ModelLoadFailed(f"tensor {name!r} is unknown to architecture {recipe.architecture!r}")


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
    present = _plan(source, architecture, recipe).keys()
    tied: dict[str, str] = {}
    for task in recipe.head_tasks:
        head = architecture.heads.get(task)
        for own, other in (head.tied if head else {}).items():
            if f"heads.{task}.{own}" not in present:
                tied[f"heads.{task}.{own}"] = other
    return tied


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
        raise ModelLoadFailed(
            f"{label}: {name} has shape {list(tensor.shape)}, config.json asks for "
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
        source, prefix = _open_projection(projection)
        wanted: Mapping[str, nn.Parameter] = dict(
            module.get_submodule(f"projections.{index}").named_parameters()
        )
        for name, parameter in wanted.items():
            stored = name.removeprefix(prefix)
            if stored not in source.names():
                where = f"{projection.folder.name}/{source.label}"
                raise ModelLoadFailed(f"{where} has no {stored!r}")
            target = f"projections.{index}.{name}"
            _set(module, target, source.get(stored), parameter, source.label, device, dtype)


def _open_projection(projection: Projection) -> tuple[TensorSource, str]:
    """Return a Dense module's tensors, and what their names lack in front."""
    if projection.file:
        return open_file(projection.folder / projection.file), "linear."
    return open_tensors(projection.folder), ""
