"""T5's encoder over packed sequences: pre-norm, and distances in place of positions.

Source: Raffel et al. 2019; tensor names as in transformers' T5EncoderModel. Scores are not scaled:
that lies in the weights. The decoder of a whole T5 stays unused.
"""

from functools import cache

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.masks import Bias
from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.layers.relative_bias import RelativeBias
from sie_mcp.adapters.layers.rms_norm import RmsNorm
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.errors import ModelLoadFailed


class Layer(nn.Module):
    """Attention and MLP, each on normed states and added."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden_size, num_heads = config["hidden_size"], config["num_attention_heads"]
        inner_size = num_heads * config["d_kv"]
        self.num_heads = num_heads
        self.attention_norm = _norm(config)
        self.qkv = nn.Linear(hidden_size, 3 * inner_size, bias=False)
        self.out = nn.Linear(inner_size, hidden_size, bias=False)
        self.mlp_norm = _norm(config)
        self.mlp = _mlp(config)

    def forward(self, x: torch.Tensor, batch: PackedBatch, bias: Bias) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        qkv = self.qkv(self.attention_norm(x)).view(len(x), 3, self.num_heads, -1)
        q, k, v = qkv.unbind(1)
        x = x + self.out(attention(q, k, v, batch, scale=1.0, bias=bias).flatten(1))
        added: torch.Tensor = x + self.mlp(self.mlp_norm(x))
        return added


class T5Encoder(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.relative_bias = RelativeBias(
            config["num_attention_heads"],
            num_buckets=config.get("relative_attention_num_buckets", 32),
            max_distance=config.get("relative_attention_max_distance", 128),
        )
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.final_norm = _norm(config)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids)
        # All layers share it: once a length and batch.
        bias = cache(self.relative_bias)
        for layer in self.layers:
            x = layer(x, batch, bias)
        normed: torch.Tensor = self.final_norm(x)
        return normed


def _norm(config: Config) -> RmsNorm:
    return RmsNorm(config["hidden_size"], config.get("layer_norm_epsilon", 1e-6))


def _mlp(config: Config) -> nn.Module:
    """Build the MLP that feed_forward_proj names: "relu", "gated-gelu" and the like."""
    kind = config.get("feed_forward_proj", "relu")
    gate, _, act = kind.rpartition("-")
    if gate not in ("", "gated"):
        raise ModelLoadFailed(
            f"config.json: feed_forward_proj {kind!r} is not supported; "
            "an activation, or one after 'gated-', is"
        )
    sizes = config["hidden_size"], config["intermediate_size"]
    # This one name means the tanh form.
    act = "gelu_new" if kind == "gated-gelu" else act
    return GatedMlp(*sizes, act) if gate else Mlp(*sizes, act)


_ATTENTION = r"encoder\.block\.(\d+)\.layer\.0\."
_MLP = r"encoder\.block\.(\d+)\.layer\.1\."

ARCHITECTURE = Architecture(
    build=T5Encoder,
    renames=(
        (r"(?:shared|encoder\.embed_tokens)\.weight", r"word.weight"),
        *fused(_ATTENTION + r"SelfAttention\.", ("q", "k", "v"), r"layers.\1.qkv"),
        (_ATTENTION + r"SelfAttention\.o\.(.*)", r"layers.\1.out.\2"),
        (_ATTENTION + r"SelfAttention\.relative_attention_bias\.(.*)", r"relative_bias.table.\2"),
        (_ATTENTION + r"layer_norm\.(.*)", r"layers.\1.attention_norm.\2"),
        (_MLP + r"DenseReluDense\.wi(?:_0)?\.(.*)", r"layers.\1.mlp.up.\2#0"),
        (_MLP + r"DenseReluDense\.wi_1\.(.*)", r"layers.\1.mlp.up.\2#1"),
        (_MLP + r"DenseReluDense\.wo\.(.*)", r"layers.\1.mlp.down.\2"),
        (_MLP + r"layer_norm\.(.*)", r"layers.\1.mlp_norm.\2"),
        (r"encoder\.final_layer_norm\.(.*)", r"final_norm.\1"),
    ),
    prefixes=(*WRAPPERS, "transformer."),
    ignored=(r"decoder\..*", r"lm_head\..*", r"classifier\..*", r"classification_head\..*"),
    heads={"token_classification": TOKEN_HEAD},
    overflows_float16=True,
    config_names={
        "d_model": "hidden_size",
        "d_ff": "intermediate_size",
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
    },
)
