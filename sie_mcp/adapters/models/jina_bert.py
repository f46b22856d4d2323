"""Jina's BERT over packed sequences (embeddings v2, reranker v1): ALiBi and a gated MLP.

Sources: Günther et al. 2023; the authors' jina-bert-implementation and jina-bert-v2-qk-post-norm;
order of halves and norms as in text-embeddings-inference's jina.rs and jina_code.rs. Tensor names
are those of the authors' checkpoints, whose model_type is "bert". The model for code also
normalises queries and keys, all heads together before they are split, adds a layer's input twice,
and has the gate second. The gate's gelu is the exact one, as the authors'.
"""

from dataclasses import replace
from functools import cache, partial

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.alibi import alibi
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.masks import Bias
from sie_mcp.adapters.layers.wide_linear import WideLayerNorm, WideLinear
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models import bert
from sie_mcp.adapters.models.names import fused
from sie_mcp.adapters.models.rotary_bert import Embeddings
from sie_mcp.adapters.models.settings import require
from sie_mcp.errors import ModelLoadFailed

_GATES = {"geglu": "gelu", "reglu": "relu"}
# Only the name of the code that a checkpoint was made with tells the two layers apart; tensors of
# one have no place in the other.
_CODE = "jinaai/jina-bert-v2-qk-post-norm"
_SERVED = {"emb_pooler": ("mean", None)}


class Layer(nn.Module):
    """Attention and gated MLP, each followed by residual and norm."""

    def __init__(self, config: Config, *, is_code: bool) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        norm = partial(nn.LayerNorm, hidden_size, eps=eps)
        self.num_heads = config["num_attention_heads"]
        # Normed queries and keys are rounded once, after the norm.
        linear = WideLinear if is_code else nn.Linear
        self.qkv = linear(hidden_size, 3 * hidden_size)
        self.q_norm = WideLayerNorm(hidden_size, eps=eps) if is_code else nn.Identity()
        self.k_norm = WideLayerNorm(hidden_size, eps=eps) if is_code else nn.Identity()
        self.out = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = norm()
        self.second_norm = norm() if is_code else None
        self.mlp = GatedMlp(
            hidden_size,
            config["intermediate_size"],
            _act(config),
            has_down_bias=True,
            is_gate_first=not is_code,
        )
        self.mlp_norm = norm()

    def forward(self, x: torch.Tensor, batch: PackedBatch, bias: Bias) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (
            one.to(x.dtype).reshape(len(x), self.num_heads, -1)
            for one in (self.q_norm(q), self.k_norm(k), v)
        )
        attended = self.out(attention(q, k, v, batch, bias=bias).flatten(1))
        attended = self.attention_norm(x + attended)
        if self.second_norm is not None:
            attended = self.second_norm(x + attended)
        normed: torch.Tensor = self.mlp_norm(attended + self.mlp(attended, batch))
        return normed


class JinaBert(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        require(config, _SERVED)
        self.num_heads = config["num_attention_heads"]
        self.embeddings = Embeddings(config)
        is_code = _is_code(config)
        self.layers = nn.ModuleList(
            Layer(config, is_code=is_code) for _ in range(config["num_hidden_layers"])
        )

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x: torch.Tensor = self.embeddings(batch)
        # Every layer asks for the same few lengths.
        bias = cache(partial(alibi, num_heads=self.num_heads, dtype=x.dtype, device=x.device))
        for layer in self.layers:
            x = layer(x, batch, bias)
        return x


def _act(config: Config) -> str:
    kind = config.get("feed_forward_type", "original")
    if kind not in _GATES:
        raise ModelLoadFailed(
            f"config.json: feed_forward_type {kind!r} is not supported; "
            f"supported: {', '.join(_GATES)}"
        )
    return _GATES[kind]


def _is_code(config: Config) -> bool:
    """Return whether config.json names the code of the other layer, in either of its two places."""
    classes = (config.get("auto_map") or {}).values()
    is_named = any(str(one).startswith(f"{_CODE}--") for one in classes)
    return is_named or config.get("_name_or_path") == _CODE


_LAYER = r"encoder\.layer\.(\d+)\."
_RENAMES = (
    *bert.EMBEDDING_RENAMES,
    *fused(_LAYER + r"attention\.self\.", ("query", "key", "value"), r"layers.\1.qkv"),
    (_LAYER + r"attention\.self\.layer_norm_([qk])\.(.*)", r"layers.\1.\2_norm.\3"),
    (_LAYER + r"attention\.output\.dense\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"attention\.output\.LayerNorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"layer_norm_1\.(.*)", r"layers.\1.second_norm.\2"),
    (_LAYER + r"mlp\.(?:gated_layers|up_gated_layer)\.(.*)", r"layers.\1.mlp.up.\2"),
    (_LAYER + r"mlp\.(?:wo|down_layer)\.(.*)", r"layers.\1.mlp.down.\2"),
    (_LAYER + r"(?:mlp\.layernorm|layer_norm_2)\.(.*)", r"layers.\1.mlp_norm.\2"),
)

# Prefixes and heads are BERT's.
ARCHITECTURE: Architecture = replace(
    bert.ARCHITECTURE,
    build=JinaBert,
    renames=_RENAMES,
    position_embedding_types=("alibi",),
    records=False,
)
