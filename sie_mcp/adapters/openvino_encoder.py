"""A BERT-like encoder whose layers OpenVINO computes: sequences of similar length share a block.

Embeddings stay torch's, which has them packed; what is in a block is padded, and goes through all
layers so. Imported only where the setting asks for it.
"""

from collections.abc import Collection, Sequence
from typing import Any

import openvino
import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.buckets import make_buckets
from sie_mcp.adapters.cpu_backend import LINEARS, added_bytes
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.models.bert import Bert, Layer
from sie_mcp.adapters.openvino_graph import make_graph
from sie_mcp.adapters.openvino_weights import Int8Weights, PlainWeights, Weights
from sie_mcp.errors import InferenceError, ModelLoadFailed

# A block's shortest sequence has at least this share of the longest one's tokens.
MIN_FILL = 0.9
# Added to scores of what is not seen; a number that bfloat16 has too.
_UNSEEN = -1e9
# Kernels are kept for each shape of a block: without a limit a process grows with every new one.
_NUM_SHAPES = 32
# Numbers of a token that share a scale where they are rounded to integers; the first that divides.
_GROUPS = (192, 256, 128, 64, 32)


def use_openvino(model: Model, weights: FlatWeights, dtype: torch.dtype) -> None:
    """Have OpenVINO compute the layers of a model's encoder, whose weights it keeps from now on.

    Raises:
        ModelLoadFailed: it cannot.
    """
    encoder = model.encoder
    assert isinstance(encoder, Bert)
    layers = OpenvinoLayers(list(encoder.layers), dtype, added_bytes(model, dtype))  # type: ignore[arg-type]
    model.encoder = OpenvinoEncoder(encoder, layers)
    weights.hand_over(layers)


class OpenvinoEncoder(nn.Module):
    """Packed ids in, hidden states out.

    Args:
        encoder: What it stands for.
        layers: Its layers.
    """

    def __init__(self, encoder: Bert, layers: "OpenvinoLayers") -> None:
        super().__init__()
        self.embeddings = encoder.embeddings
        self._layers = layers

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`, in the dtype of the embeddings."""
        embedded = self.embeddings(batch)
        x = embedded.float()
        out = torch.empty_like(x)
        seen = batch.attended or batch.lengths
        for bucket in make_buckets(batch.lengths, seen, x.device, min_fill=MIN_FILL):
            block = x[bucket.rows] if bucket.is_full else x[bucket.gather]
            shape = (bucket.num_seqs, bucket.length, x.shape[1])
            states = self._layers.run(block.view(shape), bucket.key_mask).flatten(0, 1)
            out[bucket.rows] = states if bucket.is_full else states[bucket.places]
        self._layers.rest()
        return out.to(embedded.dtype)


class OpenvinoLayers:
    """The layers, compiled for as long as their weights are on the CPU.

    Args:
        layers: Their norms and biases stay torch's too.
        dtype: What products are computed in.
        extra_bytes: What they take beside the weights they were given.
    """

    def __init__(self, layers: Sequence[Layer], dtype: torch.dtype, extra_bytes: int) -> None:
        self.extra_bytes = extra_bytes
        self._layers = layers
        self._dtype = dtype
        self._held: dict[str, Weights] = {}
        self._compiled: openvino.CompiledModel | None = None
        self._request: openvino.InferRequest | None = None

    def take(self) -> Collection[str]:
        """Compile them; return the names of the weights that are held here from now on.

        Raises:
            ModelLoadFailed: OpenVINO cannot.
        """
        hold = Int8Weights if self._dtype == torch.int8 else PlainWeights
        self._held = {
            _name(index, name): hold(layer.get_submodule(name).get_parameter("weight"))
            for index, layer in enumerate(self._layers)
            for name in LINEARS
        }
        own = [
            {name: self._held[_name(index, name)] for name in LINEARS}
            for index in range(len(self._layers))
        ]
        settings = _settings(self._dtype, self._layers[0])
        try:
            is_half = self._dtype == torch.bfloat16
            graph = make_graph(self._layers, own, is_half=is_half)
            self._compiled = openvino.Core().compile_model(graph, "CPU", settings)
            self._request = self._compiled.create_infer_request()
        except RuntimeError as error:
            raise ModelLoadFailed(f"OpenVINO cannot compile the layers: {error}") from error
        return self._held

    def plain(self, name: str) -> torch.Tensor:
        """Return weights as the checkpoint has them, or as integers stand for them."""
        return self._held[name].plain()

    def drop(self) -> None:
        """Free all, what was compiled before the numbers that it reads."""
        self._request = self._compiled = None
        self._held = {}

    def run(self, block: torch.Tensor, is_seen: torch.Tensor) -> torch.Tensor:
        """Return hidden states, float32 as the block; they are gone with the next run.

        Args:
            block: `(num_seqs, length, hidden_size)`.
            is_seen: Which tokens others may attend to, `(num_seqs, length)`.

        Raises:
            InferenceError: OpenVINO failed.
        """
        assert self._request is not None
        masking = torch.zeros(is_seen.shape).masked_fill_(~is_seen, _UNSEEN)[:, None, None]
        inputs = [block.contiguous().numpy(), masking.numpy()]
        try:
            found = self._request.infer(inputs, share_inputs=True, share_outputs=True)
        except RuntimeError as error:
            raise InferenceError(f"OpenVINO failed: {error}") from error
        return torch.from_numpy(found[0])

    def rest(self) -> None:
        """Free what a batch needed: a model that waits holds its weights alone."""
        assert self._compiled is not None
        self._compiled.release_memory()


def _name(index: int, name: str) -> str:
    return f"encoder.layers.{index}.{name}.weight"


def _settings(dtype: torch.dtype, layer: Layer) -> dict[str, Any]:
    """Return what layers are compiled for: as many threads as torch has, one batch at a time."""
    return {
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32" if dtype == torch.float32 else "bf16",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": _group(layer) if dtype == torch.int8 else 0,
        "CPU_RUNTIME_CACHE_CAPACITY": _NUM_SHAPES,
        # Which processors are free is the system's to know.
        "ENABLE_CPU_PINNING": False,
    }


def _group(layer: Layer) -> int:
    """Return how many numbers share a scale.

    Raises:
        ModelLoadFailed: none that we know divides the layer's width.
    """
    sizes = (layer.up.in_features, layer.down.in_features)
    for group in _GROUPS:
        if all(size % group == 0 for size in sizes):
            return group
    raise ModelLoadFailed(f"no group of {_GROUPS} divides {sizes[0]} and {sizes[1]} in int8")
