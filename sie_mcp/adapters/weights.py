"""Tensors of a checkpoint by name, read one at a time from mapped files; and filling a module.

Safetensors (one file or shards), or ONNX initialisers. Pickles are never opened.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from sie_mcp.adapters.model import Architecture, Renames
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.weights_onnx import OnnxTensors
from sie_mcp.errors import ModelLoadFailed

_INDEX = "model.safetensors.index.json"
_LEGACY = ((".gamma", ".weight"), (".beta", ".bias"))


class TensorSource(Protocol):
    """A checkpoint's tensors."""

    label: str

    def names(self) -> list[str]:
        """Return every tensor's name."""

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape without reading it."""

    def get(self, name: str) -> torch.Tensor:
        """Read one tensor to the host."""


class SafeTensors:
    """Tensors of safetensors files, memory-mapped."""

    def __init__(self, paths: list[Path]) -> None:
        self.label = paths[0].name
        self._files: dict[str, Any] = {}
        for path in paths:
            try:
                opened: Any = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise ModelLoadFailed(f"{path.name} cannot be read: {error}") from error
            self._files |= dict.fromkeys(opened.keys(), opened)

    def names(self) -> list[str]:
        """Return every tensor's name."""
        return list(self._files)

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape from the header."""
        shape: list[int] = self._files[name].get_slice(name).get_shape()
        return shape

    def get(self, name: str) -> torch.Tensor:
        """Read one tensor."""
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor


def open_tensors(folder: Path) -> TensorSource:
    """Open a folder's weights without reading them.

    Raises:
        ModelLoadFailed: none of a kind that we read, or a file that cannot be opened.
    """
    if (folder / "model.safetensors").is_file():
        return SafeTensors([folder / "model.safetensors"])
    if (folder / _INDEX).is_file():
        return SafeTensors(_shards(folder))
    found = sorted([*folder.glob("onnx/*.onnx"), *folder.glob("*.onnx")])
    if found:
        return OnnxTensors(found[0])
    pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])
    if pickles:
        raise ModelLoadFailed(
            f"{pickles[0].name} is a pickle, which is never opened; "
            "convert the weights to model.safetensors"
        )
    raise ModelLoadFailed(
        f"{folder.name} has no weights: expected model.safetensors, its index, or an .onnx file"
    )


def _shards(folder: Path) -> list[Path]:
    try:
        content = json.loads((folder / _INDEX).read_text("utf-8"))
        names = sorted(set(content["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelLoadFailed(f"{_INDEX} cannot be read: {error!r}") from error
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelLoadFailed(f"{_INDEX} names {missing[0]}, which is not there")
    return [folder / name for name in names]


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
    return {base: [parts[index] for index in sorted(parts)] for base, parts in found.items()}


def _target(name: str, architecture: Architecture, recipe: Recipe) -> str | None:
    """Return our name for a checkpoint's tensor; None for one that may stay unused."""
    clean = _without_legacy(name)
    bare = _without_prefix(clean, architecture.prefixes)
    for task in recipe.tasks:
        head = architecture.head(task)
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
    for task in recipe.tasks:
        head = architecture.head(task)
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
        source = open_tensors(projection.folder)
        wanted: Mapping[str, nn.Parameter] = dict(
            module.get_submodule(f"projections.{index}").named_parameters()
        )
        for name, parameter in wanted.items():
            if name not in source.names():
                where = f"{projection.folder.name}/{source.label}"
                raise ModelLoadFailed(f"{where} has no {name!r}")
            target = f"projections.{index}.{name}"
            _set(module, target, source.get(name), parameter, source.label, device, dtype)
