"""BERT's layers as a graph of OpenVINO's: padded blocks of hidden states in, the same out.

Operations and their order are those of `models/bert.py`. Knows layers; no batch, no checkpoint.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import openvino
import torch
from openvino import Node, opset13
from torch import nn

from sie_mcp.adapters.cpu_backend import ACTIVATIONS
from sie_mcp.adapters.models.bert import Layer
from sie_mcp.adapters.openvino_weights import Weights

# By the name of a linear layer.
LayerWeights = Mapping[str, Weights]


def make_graph(
    layers: Sequence[Layer], weights: Sequence[LayerWeights], *, is_half: bool
) -> openvino.Model:
    """Return the graph of all layers, one after the other.

    It takes hidden states float32 `(num_seqs, length, hidden_size)`, and what is added to scores,
    float32 `(num_seqs, 1, 1, length)`: nothing for tokens that are seen, a great negative number
    for others. It gives hidden states of the same shape.

    Args:
        layers: The layers.
        weights: Of each.
        is_half: Weights are bfloat16, and so is all between. A graph in float32 with such weights
            would keep them in float32 too.
    """
    states = opset13.parameter([-1, -1, layers[0].out.out_features], np.float32)
    masking = opset13.parameter([-1, 1, 1, -1], np.float32)
    x, added = (_half(one) if is_half else one for one in (states, masking))
    for layer, own in zip(layers, weights, strict=True):
        x = _layer(x, added, layer, own)
    x = opset13.convert(x, np.float32) if is_half else x
    return openvino.Model([opset13.result(x)], [states, masking], "layers")


def _layer(x: Node, masking: Node, layer: Layer, weights: LayerWeights) -> Node:
    """Attention and MLP, each followed by residual and norm."""
    attended = _linear(_attention(x, masking, layer, weights["qkv"]), layer.out, weights["out"])
    x = _norm(opset13.add(attended, x), layer.attention_norm)
    made = _activated(_linear(x, layer.up, weights["up"]), layer.act)
    return _norm(opset13.add(_linear(made, layer.down, weights["down"]), x), layer.mlp_norm)


def _attention(x: Node, masking: Node, layer: Layer, weights: Weights) -> Node:
    """Softmax over products, written out: the form that OpenVINO finds its fused kernel by."""
    size, heads = layer.qkv.in_features, layer.num_heads
    # Products of a third each: one for all would be cut apart again by copies.
    q, k, v = (
        opset13.reshape(
            _linear(x, layer.qkv, weights, slice(first, first + size)),
            _integers(0, 0, heads, size // heads),
            True,
        )
        for first in range(0, 3 * size, size)
    )
    q, v = (opset13.transpose(one, _integers(0, 2, 1, 3)) for one in (q, v))
    scores = opset13.matmul(q, opset13.transpose(k, _integers(0, 2, 3, 1)), False, False)
    scale = _numbers(torch.tensor(1 / math.sqrt(size // heads)), scores)
    scores = opset13.add(opset13.multiply(scores, scale), masking)
    attended = opset13.matmul(opset13.softmax(scores, -1), v, False, False)
    attended = opset13.transpose(attended, _integers(0, 2, 1, 3))
    return opset13.reshape(attended, _integers(0, 0, size), True)


def _linear(x: Node, linear: nn.Linear, weights: Weights, rows: slice = slice(None)) -> Node:
    y = opset13.matmul(x, weights.node(rows), False, True)
    return opset13.add(y, _numbers(linear.bias[rows].view(1, 1, -1), y))


def _norm(x: Node, norm: nn.LayerNorm) -> Node:
    normed = opset13.mvn(x, _integers(-1), True, norm.eps, "INSIDE_SQRT")
    weighed = opset13.multiply(normed, _numbers(norm.weight, x))
    return opset13.add(weighed, _numbers(norm.bias, x))


def _activated(x: Node, act: str) -> Node:
    form = ACTIVATIONS[act]
    return opset13.relu(x) if form == "relu" else opset13.gelu(x, form)


def _numbers(values: torch.Tensor, other: Node) -> Node:
    """Return a copy as the graph's own, of the type that another node has."""
    dtype = other.get_element_type()
    return opset13.constant(values.detach().float().numpy(), dtype)


def _half(x: Node) -> Node:
    return opset13.convert(x, openvino.Type.bf16)


def _integers(*values: int) -> Node:
    return opset13.constant(np.array(values, np.int64))
