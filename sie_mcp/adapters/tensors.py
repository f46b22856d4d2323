"""Tensors of a checkpoint by name, read one at a time from mapped files.

Safetensors (one file or shards), PyTorch's own files, or ONNX initialisers. A pickle is read by
torch's restricted reader, which makes tensors and plain containers and runs nothing.
"""

import importlib
import json
import pickle
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from sie_mcp.errors import ModelLoadFailed

_INDEX = "model.safetensors.index.json"
# How much of a mapped pickle may have been read before it is mapped anew.
MAX_MAPPED_BYTES = 64 * 1024 * 1024
_PICKLE, _PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# Where training loops put a module's tensors beside what they need to go on.
_WRAPPERS = ("state_dict", "model_state_dict", "pruning_head")


# What a safetensors header calls numbers that are not converted.
_INTEGERS = {
    "BOOL": torch.bool,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "U8": torch.uint8,
}


class TensorSource(Protocol):
    """A checkpoint's tensors."""

    label: str

    def names(self) -> list[str]:
        """Return every tensor's name."""

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape without reading it."""

    def dtype(self, name: str) -> torch.dtype:
        """Return a tensor's dtype without reading it."""

    def get(self, name: str) -> torch.Tensor:
        """Read one tensor to the host."""


class SafeTensors:
    """Tensors of safetensors files.

    A file is mapped for one tensor at a time: the pages of a whole one that stayed mapped would
    count as ours, and double the memory that a load takes.
    """

    def __init__(self, paths: list[Path]) -> None:
        self.label = paths[0].name
        self._files: dict[str, Path] = {}
        self._shapes: dict[str, list[int]] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        for path in paths:
            opened = _opened(path)
            for name in opened.keys():  # noqa: SIM118 – it is no mapping
                header = opened.get_slice(name)
                self._files[name] = path
                self._shapes[name] = header.get_shape()
                self._dtypes[name] = _INTEGERS.get(header.get_dtype(), torch.float32)

    def names(self) -> list[str]:
        """Return every tensor's name."""
        return list(self._files)

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape from the header."""
        return self._shapes[name]

    def dtype(self, name: str) -> torch.dtype:
        """Return an integer's dtype from the header; of all others float32."""
        return self._dtypes[name]

    def get(self, name: str) -> torch.Tensor:
        """Read one tensor; its file stays mapped until it is dropped."""
        tensor: torch.Tensor = _opened(self._files[name]).get_tensor(name)
        return tensor


class PickledTensors:
    """Tensors of PyTorch's own files, memory-mapped where the file allows it."""

    def __init__(self, paths: list[Path]) -> None:
        self.label = paths[0].name
        self._paths = paths
        self._num_read = 0
        self._tensors = self._open()

    def names(self) -> list[str]:
        """Return every tensor's name."""
        return list(self._tensors)

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape."""
        return list(self._tensors[name].shape)

    def dtype(self, name: str) -> torch.dtype:
        """Return a tensor's dtype."""
        return self._tensors[name].dtype

    def get(self, name: str) -> torch.Tensor:
        """Return one tensor, still mapped."""
        if self._num_read > MAX_MAPPED_BYTES and all(_is_archive(path) for path in self._paths):
            # What was read stays in memory as long as its mapping lives.
            self._tensors, self._num_read = self._open(), 0
        tensor = self._tensors[name]
        self._num_read += tensor.nbytes
        return tensor

    def _open(self) -> dict[str, torch.Tensor]:
        return {name: one for path in self._paths for name, one in _tensors_of(path).items()}


def open_tensors(folder: Path) -> TensorSource:
    """Open a folder's weights without reading them.

    Raises:
        ModelLoadFailed: none of a kind that we read, or a file that cannot be opened.
    """
    if (folder / "model.safetensors").is_file():
        return SafeTensors([folder / "model.safetensors"])
    if (folder / _INDEX).is_file():
        return SafeTensors(_shards(folder, _INDEX))
    if (folder / _PICKLE).is_file():
        return PickledTensors([folder / _PICKLE])
    if (folder / _PICKLE_INDEX).is_file():
        return PickledTensors(_shards(folder, _PICKLE_INDEX))
    found = sorted([*folder.glob("onnx/*.onnx"), *folder.glob("*.onnx")])
    if found:
        # Only here: no other file needs onnx, which takes a while to import.
        onnx = importlib.import_module("sie_mcp.adapters.weights_onnx")
        source: TensorSource = onnx.OnnxTensors(found[0])
        return source
    raise ModelLoadFailed(
        f"{folder.name} has no weights: expected model.safetensors, its index, "
        "pytorch_model.bin, or an .onnx file"
    )


def open_file(path: Path) -> TensorSource:
    """Open one file of tensors, safetensors or PyTorch's own.

    Raises:
        ModelLoadFailed: it cannot be opened.
    """
    return SafeTensors([path]) if path.suffix == ".safetensors" else PickledTensors([path])


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelLoadFailed(f"{path.name} cannot be read: {error}") from error


def _shards(folder: Path, index: str) -> list[Path]:
    try:
        content = json.loads((folder / index).read_text("utf-8"))
        names = sorted(set(content["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelLoadFailed(f"{index} cannot be read: {error!r}") from error
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelLoadFailed(f"{index} names {missing[0]}, which is not there")
    return [folder / name for name in names]


def _tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """Read a file's tensors by name; anything else in it is refused."""
    content = _load(path)
    if isinstance(content, dict):
        wrapped = (content[one] for one in _WRAPPERS if isinstance(content.get(one), dict))
        content = next(wrapped, content)
    if not isinstance(content, dict):
        raise ModelLoadFailed(f"{path.name} must hold named tensors")
    others = [name for name, value in content.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise ModelLoadFailed(f"{path.name}: {others[0]!r} is not a tensor")
    return content


def _load(path: Path) -> Any:
    options: dict[str, Any] = {"map_location": "cpu", "weights_only": True}
    try:
        # Files from before PyTorch 1.6 are no archives and cannot be mapped.
        return torch.load(path, mmap=_is_archive(path), **options)
    except pickle.UnpicklingError as error:
        raise ModelLoadFailed(
            f"{path.name} is a pickle with more than tensors in it, which is never run; "
            "convert the weights to model.safetensors"
        ) from error
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelLoadFailed(f"{path.name} cannot be read: {reason:.200}") from error


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"
