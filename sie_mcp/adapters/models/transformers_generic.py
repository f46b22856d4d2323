"""A model of transformers with the processor of its images and texts. Nothing is downloaded."""

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sie_mcp.adapters.flat import ALIGNMENT, DtypeOf
from sie_mcp.adapters.models.transformers_library import (
    FAILURES,
    check_size,
    failed,
    library,
    load,
    loading,
    read_config,
)
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import open_tensors


def load_whole(recipe: Recipe, class_name: str, *, attention: str | Mapping[str, str]) -> Any:
    """Load a class of the library to the host, float32, ready to run.

    Raises:
        ModelLoadFailed: wrong files, or not a checkpoint of this class.
    """
    config = read_config(recipe.name, recipe.folder, runs_own_code=False)
    source = getattr(library(), class_name)
    with loading:
        # Said before anything is built: config.json could name a kernel to download and run.
        config._attn_implementation = attention
        check_size(recipe, source, config)
        return load(recipe, source, config, attention=attention)


def load_processor(name: str, folder: Path) -> Any:
    """Load what makes tensors of images and texts, its steps on Pillow.

    Raises:
        ModelLoadFailed: wrong files.
    """
    importlib.import_module("PIL")
    try:
        with loading:
            return library().AutoProcessor.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, backend="pil"
            )
    except FAILURES as error:
        raise failed(name, "its processor cannot be read", error) from error


def stored_whole(recipe: Recipe, dtype: torch.dtype) -> int:
    """Return what the checkpoint's tensors will take on the device, by their headers alone."""
    source, dtype = open_tensors(recipe.folder), weights_dtype(recipe, dtype)
    sizes = (math.prod(source.shape(name)) for name in source.names())
    return sum(size * dtype.itemsize + ALIGNMENT for size in sizes)


def weights_in(dtype: torch.dtype) -> DtypeOf:
    """Say what each tensor becomes: weights this, tables that are computed stay what they are."""

    def dtype_of(_: str, tensor: torch.Tensor) -> torch.dtype:
        is_weight = isinstance(tensor, torch.nn.Parameter) and tensor.is_floating_point()
        return dtype if is_weight else tensor.dtype

    return dtype_of


def weights_dtype(recipe: Recipe, dtype: torch.dtype) -> torch.dtype:
    """Return what weights become: boxes in half precision are pixels off."""
    return torch.float32 if recipe.tasks[0] == "detection" else dtype
