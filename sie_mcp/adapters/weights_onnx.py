"""Weights of an ONNX file as named tensors: plain, and the two quantised forms met in the wild.

Only initialisers are read; the graph is never run. A linear layer's weight has no name of its own
there: the name of the node that uses it gives it one. 4-bit blocks (MatMulNBits) and uint8 tables
with one scale are turned back into float32.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from sie_mcp.errors import ModelLoadFailed

_PARTS = ("_quantized", "_scale", "_zero_point")
_NODE_SUFFIXES = re.compile(r"\.?(MatMul_Q4|MatMulNBits|MatMul|Gemm)$")
# Exporters put the wrapper's own names in front of the module's.
_NODE_PREFIX = re.compile(r"^(?:model\.)?(?:0\.)?(?:auto_model\.)?")


class OnnxTensors:
    """Tensors of one ONNX file, dequantised when asked for."""

    def __init__(self, path: Path) -> None:
        self.label = path.name
        try:
            graph = onnx.load(str(path)).graph
        except (DecodeError, OSError, ValueError) as error:
            raise ModelLoadFailed(f"{path.name} cannot be read: {error}") from error
        self._stored = {one.name: one for one in graph.initializer}
        self._makers: dict[str, Callable[[], np.ndarray]] = {}
        self._shapes: dict[str, list[int]] = {}
        for name, stored in self._stored.items():
            self._add_stored(name, list(stored.dims))
        for node in graph.node:
            if node.op_type == "MatMulNBits":
                self._add_blocks(node)
            elif node.op_type in ("MatMul", "Gemm") and node.input[1] in self._stored:
                self._add_linear(node)

    def names(self) -> list[str]:
        """Return every tensor's name."""
        return list(self._makers)

    def shape(self, name: str) -> list[int]:
        """Return a tensor's shape without making it."""
        return self._shapes[name]

    def dtype(self, name: str) -> torch.dtype:
        """Return what all are made."""
        return torch.float32

    def get(self, name: str) -> torch.Tensor:
        """Make one tensor, float32."""
        return torch.from_numpy(np.require(self._makers[name](), requirements=["C", "W"]))

    def _add_stored(self, name: str, shape: list[int]) -> None:
        if name.endswith("_quantized"):
            base = name.removesuffix("_quantized")
            self._register(base, shape, lambda: self._table(base))
        elif not name.endswith(_PARTS) and "." in name and not name.startswith("onnx::"):
            clean = _NODE_PREFIX.sub("", name)
            self._register(clean, shape, lambda: self._array(name))

    def _add_linear(self, node: Any) -> None:
        weight = node.input[1]
        if "." in weight and not weight.startswith("onnx::"):
            return
        shape = list(self._stored[weight].dims)
        self._register(_layer(node) + ".weight", shape[::-1], lambda: self._array(weight).T)

    def _add_blocks(self, node: Any) -> None:
        sizes = {one.name: one.i for one in node.attribute}
        if sizes.get("bits", 4) != 4:
            raise ModelLoadFailed(f"{self.label}: {node.name} has {sizes['bits']} bits; 4 are read")
        shape = [sizes["N"], sizes["K"]]
        self._register(_layer(node) + ".weight", shape, lambda: self._blocks(node, sizes))

    def _register(self, name: str, shape: list[int], make: Callable[[], np.ndarray]) -> None:
        self._makers[name] = make
        self._shapes[name] = shape

    def _array(self, name: str) -> np.ndarray:
        array: np.ndarray = numpy_helper.to_array(self._stored[name])
        return array

    def _table(self, base: str) -> np.ndarray:
        scale = self._array(base + "_scale").astype(np.float32)
        zero = self._array(base + "_zero_point").astype(np.float32)
        table: np.ndarray = (self._array(base + "_quantized").astype(np.float32) - zero) * scale
        return table

    def _blocks(self, node: Any, sizes: dict[str, int]) -> np.ndarray:
        """Undo 4-bit blocks: two values a byte, low half first, one scale and zero a block."""
        rows, block = sizes["N"], sizes["block_size"]
        values = _halves(self._array(node.input[1])).reshape(rows, -1, block)
        scales = self._array(node.input[2]).astype(np.float32).reshape(rows, -1, 1)
        zeros: np.ndarray | float = 8.0
        if len(node.input) > 3 and node.input[3]:
            stored = _halves(self._array(node.input[3]).reshape(rows, -1)).reshape(rows, -1)
            zeros = stored[:, : scales.shape[1], None]
        weight: np.ndarray = ((values - zeros) * scales).reshape(rows, -1)[:, : sizes["K"]]
        return weight


def _halves(packed: np.ndarray) -> np.ndarray:
    return np.stack([packed & 0xF, packed >> 4], axis=-1).astype(np.float32)


def _layer(node: Any) -> str:
    """Turn "/bert/encoder/layer.0/…/MatMul" into "bert.encoder.layer.0.…"."""
    name = node.name.strip("/").replace("/", ".")
    return _NODE_PREFIX.sub("", _NODE_SUFFIXES.sub("", name))
