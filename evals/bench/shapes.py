"""Models of the real shapes with random weights, and how long their texts are."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sie_mcp.adapters.adapter import Adapter, Sequence
from sie_mcp.adapters.card import describe
from sie_mcp.adapters.cross_encoder import CrossEncoderAdapter
from sie_mcp.adapters.dense import DenseOutput
from sie_mcp.adapters.encode import EncodeAdapter
from sie_mcp.adapters.fast_paths import FastAdapter
from sie_mcp.adapters.flat import FlatWeights, flatten, weights_stream
from sie_mcp.adapters.float8 import stored_dtype, use_float8
from sie_mcp.adapters.graphs import graphs_for
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.recipe import Recipe

SHAPES = {
    "MiniLM-L6": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12},
    "bge-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    "bge-large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
}
WORKLOADS = ("tail", "256", "queries")


def lengths(workload: str, num_texts: int) -> list[int]:
    """Draw token counts: log-normal with a median of 60, all 256, or 6 to 16."""
    rng = np.random.default_rng(0)
    if workload == "256":
        return [256] * num_texts
    if workload == "queries":
        return [int(one) for one in rng.integers(6, 17, num_texts)]
    drawn = rng.lognormal(np.log(60), 0.9, num_texts)
    return [int(one) for one in np.clip(drawn, 8, 512)]


def config_of(name: str) -> dict[str, Any]:
    """Return what config.json of a shape says."""
    shape = SHAPES[name]
    config = {**shape, "intermediate_size": 4 * shape["hidden_size"], "vocab_size": 30_522}
    return config | {"max_position_embeddings": 512, "model_type": "bert"}


def make_adapter(
    name: str,
    *,
    dtype: torch.dtype = torch.bfloat16,
    task: str = "dense",
    seed: int = 0,
    paths: frozenset[str] = frozenset(),
) -> Adapter:
    """Return an adapter on the CUDA device whose weights are drawn; texts need no tokenizer.

    Nothing is checked here: the rows show how far its vectors are from those of float32.
    """
    recipe = Recipe(
        name=name,
        folder=Path(),
        architecture="bert",
        config=config_of(name),
        tasks=(task,),
        max_length=512,
        pooling=("mean",) if task == "dense" else ("cls",),
        labels=() if task == "dense" else ("relevance",),
    )
    torch.manual_seed(seed)
    model = Model(recipe, ARCHITECTURES["bert"]).eval()
    device = torch.device("cuda", torch.cuda.current_device())
    weights = _flat(model, device, dtype)
    if "graphs" in paths:
        model.graphs = graphs_for(recipe.name, recipe.config, model.encoder, weights)
    loaded = Loaded(recipe, model, None, describe(recipe), weights)
    if task != "dense":
        return _taking(paths, CrossEncoderAdapter(loaded))
    output = DenseOutput(recipe, model, recipe.config["hidden_size"])
    return _taking(paths, EncodeAdapter(loaded, {"dense": output}, None))


def _flat(model: Model, device: torch.device, dtype: torch.dtype) -> FlatWeights:
    """Bring drawn weights to the device, in eight bits where the dtype says so."""
    drawn = dict(model.named_modules())
    if dtype == FLOAT8:
        use_float8(model, model.encoder, "bert")
    stored = stored_dtype(dtype)
    with weights_stream(device):
        weights = flatten(
            model,
            device,
            lambda _, one: (
                stored if isinstance(one, nn.Parameter) and one.dtype != FLOAT8 else one.dtype
            ),
        )
        for name, layer in model.named_modules():
            if isinstance(layer, Float8Linear):
                layer.put(drawn[name].weight.detach())
    torch.cuda.synchronize()
    return weights


def _taking(paths: frozenset[str], adapter: Adapter) -> Adapter:
    return FastAdapter(adapter, paths) if paths else adapter


def sequences(work: list[int], outputs: str = "dense") -> list[Sequence]:
    """Return texts of these lengths, of random words."""
    rng = np.random.default_rng(1)
    return [Sequence(rng.integers(0, 30_000, n), outputs=frozenset({outputs})) for n in work]


def batches(texts: list[Sequence], budget: int) -> list[list[Sequence]]:
    """Cut texts, in their order, into batches of a budget, each sorted as the engine sorts."""
    parts: list[list[Sequence]] = [[]]
    used = 0
    for text in texts:
        if used + text.num_tokens > budget:
            parts.append([])
            used = 0
        parts[-1].append(text)
        used += text.num_tokens
    return [sorted(part, key=lambda one: -one.num_tokens) for part in parts]
