"""A linear layer's weights as OpenVINO's graphs hold them: their numbers are ours, and stay.

Knows no layer and no model.
"""

from typing import Protocol

import numpy as np
import openvino
import torch
from openvino import Node, opset13

from sie_mcp.adapters.layers.cpu.int8_linear import rounded_rows


class Weights(Protocol):
    """Weights that live while graphs made of them do."""

    def node(self, rows: slice) -> Node:
        """Return some rows as numbers of a graph, `(num_rows, in_features)`."""

    def plain(self) -> torch.Tensor:
        """Return all as they count, `(out_features, in_features)`."""


class PlainWeights:
    """Numbers as the checkpoint has them, float32 or bfloat16."""

    def __init__(self, weights: torch.Tensor) -> None:
        self._own = weights.detach().clone(memory_format=torch.contiguous_format)
        # What a graph reads is ours: it has to live as long.
        self._lent: list[openvino.Tensor] = []

    def node(self, rows: slice) -> Node:
        """Return rows as the graph's own, of the same memory."""
        part = self._own[rows]
        if part.dtype == torch.float32:
            return opset13.constant(part.numpy(), shared_memory=True)
        # numpy has no such numbers.
        lent = openvino.Tensor(part.view(torch.int16).numpy(), list(part.shape), openvino.Type.bf16)
        self._lent.append(lent)
        return opset13.constant(lent, shared_memory=True)

    def plain(self) -> torch.Tensor:
        """Return them."""
        return self._own


class Int8Weights:
    """Integers, and a scale a row."""

    def __init__(self, weights: torch.Tensor) -> None:
        self._own, self._scales = rounded_rows(weights.detach().float())

    def node(self, rows: slice) -> Node:
        """Return rows as products of integers and scales, which the graph keeps apart."""
        whole = opset13.constant(self._own[rows].numpy(), shared_memory=True)
        scales = opset13.constant(self._scales[rows, None].numpy(), shared_memory=True)
        return opset13.multiply(opset13.convert(whole, np.float32), scales)

    def plain(self) -> torch.Tensor:
        """Return what the integers stand for."""
        return (self._own.float() * self._scales[:, None]).bfloat16()
