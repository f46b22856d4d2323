"""ModernBERT over packed sequences: pre-norm, rotary positions, most layers see a window only.

Source: Warner et al. 2024; tensor names as in transformers' ModernBertModel, whose config has an
old dialect (global_attn_every_n_layers, *_rope_theta) and a new one (layer_types,
rope_parameters). Its heads share one form: dense, activation, norm, then a linear layer.
"""

from typing import Literal

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.add_norm import sum_and_norm
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.project import project
from sie_mcp.adapters.layers.rotary import Rotary, Turns, read_rotary, rotate
from sie_mcp.adapters.model import Architecture, Config, Head
from sie_mcp.adapters.models.names import WORD_TABLE, WRAPPERS
from sie_mcp.errors import ModelLoadFailed

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
# The reference's, where config.json is silent.
_GLOBAL_THETA, _LOCAL_THETA = 160_000.0, 10_000.0


class Embeddings(nn.Module):
    """Word vectors, normalised: positions come in as rotations."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.norm = _norm(config)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        embedded: torch.Tensor = self.norm(self.word(batch.input_ids))
        return embedded


class Layer(nn.Module):
    """Attention and gated MLP, each on normed states and added; the first has its norm before."""

    def __init__(self, config: Config, *, is_first: bool, window: Window) -> None:
        super().__init__()
        hidden_size, has_bias = config["hidden_size"], config.get("attention_bias", False)
        self.num_heads = config["num_attention_heads"]
        self.window = window
        self.attention_norm = nn.Identity() if is_first else _norm(config)
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size, bias=has_bias)
        self.out = nn.Linear(hidden_size, hidden_size, bias=has_bias)
        self.mlp_norm = _norm(config)
        self.mlp = GatedMlp(
            hidden_size,
            config["intermediate_size"],
            config.get("hidden_activation", "gelu"),
            has_up_bias=config.get("mlp_bias", False),
            has_down_bias=config.get("mlp_bias", False),
        )

    def forward(self, x: torch.Tensor, batch: PackedBatch, turns: Turns) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        qkv = project(self.attention_norm(x), self.qkv, batch).view(len(x), 3, self.num_heads, -1)
        q, k, v = qkv.unbind(1)
        q, k = rotate(q, turns, batch), rotate(k, turns, batch)
        attended = attention(q, k, v, batch, window=self.window).flatten(1)
        attended = project(attended, self.out, batch)
        x, normed = sum_and_norm(x, attended, self.mlp_norm, batch, self.mlp.up)
        added: torch.Tensor = x + self.mlp(normed.states, batch, normed.eight)
        return added


class ModernBert(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.layer_types = _layer_types(config)
        self.rotary = _rotary(config)
        reach = config.get("local_attention", 128) // 2
        self.layers = nn.ModuleList(
            Layer(config, is_first=not place, window=(reach, reach) if kind == _LOCAL else None)
            for place, kind in enumerate(self.layer_types)
        )
        self.final_norm = _norm(config)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        normed: torch.Tensor = self.final_norm(self.before_norm(batch))
        return normed

    def before_norm(self, batch: PackedBatch) -> torch.Tensor:
        """Return what the last layer gives, which some heads read."""
        x: torch.Tensor = self.embeddings(batch)
        turns = {kind: rotary.turns(batch) for kind, rotary in self.rotary.items()}
        for kind, layer in zip(self.layer_types, self.layers, strict=True):
            x = layer(x, batch, turns[kind])
        return x


class TransformedHead(nn.Module):
    """Dense, activation and norm, then one linear layer: every head of the family."""

    def __init__(self, config: Config, num_outputs: int, *, has_bias: bool) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        self.dense = nn.Linear(hidden_size, hidden_size, bias=config.get("classifier_bias", False))
        self.norm = _norm(config)
        self.last = nn.Linear(hidden_size, num_outputs, bias=has_bias)
        self.activation = activation(config.get("classifier_activation", "gelu"))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_rows, num_outputs)`."""
        logits: torch.Tensor = self.last(self.norm(self.activation(self.dense(hidden_states))))
        return logits


def _norm(config: Config) -> nn.LayerNorm:
    eps, has_bias = config.get("norm_eps", 1e-5), config.get("norm_bias", False)
    return nn.LayerNorm(config["hidden_size"], eps=eps, bias=has_bias)


def _layer_types(config: Config) -> tuple[str, ...]:
    """Return for each layer whether it sees everything or a window."""
    given = config.get("layer_types")
    if given is None:
        every = config.get("global_attn_every_n_layers", 3)
        count = config["num_hidden_layers"]
        return tuple(_LOCAL if place % every else _GLOBAL for place in range(count))
    if len(given) != config["num_hidden_layers"] or not set(given) <= {_GLOBAL, _LOCAL}:
        raise ModelLoadFailed(
            f"config.json: layer_types {given!r} is not supported; "
            f"each of the {config['num_hidden_layers']} must be {_GLOBAL} or {_LOCAL}"
        )
    return tuple(given)


def _rotary(config: Config) -> dict[str, Rotary]:
    """Return each type of layer's rotary positions."""
    theta = config.get("global_rope_theta", _GLOBAL_THETA)
    local_theta = config.get("local_rope_theta", _LOCAL_THETA) or theta
    return {
        _GLOBAL: read_rotary(config, theta=theta, layer_type=_GLOBAL),
        _LOCAL: read_rotary(config, theta=local_theta, layer_type=_LOCAL),
    }


def _pooling(config: Config) -> Literal["cls", "mean"]:
    value: Literal["cls", "mean"] = config.get("classifier_pooling", "cls")
    if value not in ("cls", "mean"):
        raise ModelLoadFailed(
            f"config.json: classifier_pooling {value!r} is not supported; supported: cls, mean"
        )
    return value


def _build_decoder(config: Config, _: int) -> nn.Module:
    has_bias = config.get("decoder_bias", True)
    return TransformedHead(config, config["vocab_size"], has_bias=has_bias)


def _build_classifier(config: Config, num_labels: int) -> nn.Module:
    return TransformedHead(config, num_labels, has_bias=True)


_TRANSFORM = (r"head\.(dense|norm)\.(.*)", r"\1.\2")
_CLASSIFIER = (_TRANSFORM, (r"classifier\.(.*)", r"last.\1"))
_LAYER = r"layers\.(\d+)\."

ARCHITECTURE = Architecture(
    records=True,
    build=ModernBert,
    renames=(
        (r"embeddings\.tok_embeddings\.(.*)", r"embeddings.word.\1"),
        (r"embeddings\.norm\.(.*)", r"embeddings.norm.\1"),
        (_LAYER + r"attn\.Wqkv\.(.*)", r"layers.\1.qkv.\2"),
        (_LAYER + r"attn\.Wo\.(.*)", r"layers.\1.out.\2"),
        (_LAYER + r"attn_norm\.(.*)", r"layers.\1.attention_norm.\2"),
        (_LAYER + r"mlp_norm\.(.*)", r"layers.\1.mlp_norm.\2"),
        (_LAYER + r"mlp\.Wi\.(.*)", r"layers.\1.mlp.up.\2"),
        (_LAYER + r"mlp\.Wo\.(.*)", r"layers.\1.mlp.down.\2"),
        (r"final_norm\.(.*)", r"final_norm.\1"),
    ),
    prefixes=(*WRAPPERS, "model."),
    ignored=(r"head\..*", r"decoder\..*", r"classifier\..*"),
    heads={
        "sparse": Head(
            build=_build_decoder,
            renames=(_TRANSFORM, (r"decoder\.(.*)", r"last.\1")),
            tied={"last.weight": WORD_TABLE},
        ),
        "cross_encoder": Head(build=_build_classifier, renames=_CLASSIFIER, pooling=_pooling),
        "token_classification": Head(build=_build_classifier, renames=_CLASSIFIER),
    },
    position_embedding_types=("absolute", "sans_pos"),
)
