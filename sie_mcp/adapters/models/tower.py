"""What CLIP's and SigLIP's towers are made of: pre-norm layers, and the tower for texts.

Source: Radford et al. 2021; tensor names as in transformers' CLIPModel, which SigLIP's share.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.add_norm import Normed, sum_and_norm
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.layers.project import project
from sie_mcp.adapters.layers.widen import widen_and_narrow
from sie_mcp.adapters.model import Architecture, Config, Head, TextFeatures, Vision
from sie_mcp.adapters.models.names import fused


class Layer(nn.Module):
    """Attention and MLP, each on normed states and added."""

    def __init__(self, config: Config, *, is_causal: bool) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config["layer_norm_eps"]
        self.num_heads, self.is_causal = config["num_attention_heads"], is_causal
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)
        self.mlp_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.mlp = Mlp(
            hidden_size, config["intermediate_size"], config["hidden_act"], has_bias=True
        )

    def forward(
        self,
        x: torch.Tensor,
        normed: Normed,
        batch: PackedBatch,
        next_norm: nn.LayerNorm,
        reader: nn.Module | None,
    ) -> tuple[torch.Tensor, Normed]:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`, and their norm.

        Args:
            x: Hidden states.
            normed: What this layer's first norm makes of them.
            batch: Tells whether kernels may run.
            next_norm: Of what comes next.
            reader: The layer that reads that norm.
        """
        qkv = project(normed.states, self.qkv, batch, normed.eight)
        q, k, v = qkv.view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attention(q, k, v, batch, causal=self.is_causal).flatten(1)
        attended = project(attended, self.out, batch)
        x, (states, eight) = sum_and_norm(x, attended, self.mlp_norm, batch, self.mlp.up)
        up, down, act, function = self.mlp.up, self.mlp.down, self.mlp.act, self.mlp.activation
        made = widen_and_narrow(states, up, down, act, function, batch, eight)
        return sum_and_norm(x, made, next_norm, batch, reader)


def run_layers(
    layers: Iterable[nn.Module],
    x: torch.Tensor,
    added: torch.Tensor | None,
    last_norm: nn.LayerNorm,
    batch: PackedBatch,
) -> torch.Tensor:
    """Return what a tower's layers make of x, or of x + added, normed: `(num_tokens, …)`."""
    own = cast("list[Layer]", list(layers))
    first = own[0]
    if added is None:
        normed = Normed(first.attention_norm(x))
    else:
        x, normed = sum_and_norm(x, added, first.attention_norm, batch, first.qkv)
    following = [*((one.attention_norm, one.qkv) for one in own[1:]), (last_norm, None)]
    for layer, (norm, reader) in zip(own, following, strict=True):
        x, normed = layer(x, normed, batch, norm, reader)
    return normed.states


class TextTower(nn.Module):
    """Packed ids in, normed hidden states out; which one makes the vector is not its matter."""

    def __init__(self, config: Config, *, is_causal: bool) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        self.word = nn.Embedding(config["vocab_size"], hidden_size)
        self.position = nn.Embedding(config["max_position_embeddings"], hidden_size)
        self.layers = nn.ModuleList(
            Layer(config, is_causal=is_causal) for _ in range(config["num_hidden_layers"])
        )
        self.norm = nn.LayerNorm(hidden_size, eps=config["layer_norm_eps"])

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        words, positions = self.word(batch.input_ids), self.position(batch.position_ids)
        return run_layers(self.layers, words, positions, self.norm, batch)


def make_text_architecture(
    *,
    is_causal: bool,
    head: Head,
    features: TextFeatures,
    defaults: Config,
    vision: Vision | None = None,
) -> Architecture:
    """Return a family's row: whether tokens see later ones, what is on top, its own defaults."""
    return Architecture(
        build=lambda config: TextTower(config, is_causal=is_causal),
        renames=_TEXT_RENAMES,
        prefixes=("text_model.",),
        ignored=_IGNORED,
        heads={"dense": head},
        text_features=features,
        vision=vision,
        config_defaults=defaults,
    )


_LAYER = r"encoder\.layers\.(\d+)\."
# Of one tower, after its name is gone.
LAYER_RENAMES = (
    *fused(_LAYER + r"self_attn\.", ("q_proj", "k_proj", "v_proj"), r"layers.\1.qkv"),
    (_LAYER + r"self_attn\.out_proj\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"layer_norm1\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"layer_norm2\.(.*)", r"layers.\1.mlp_norm.\2"),
    (_LAYER + r"mlp\.fc1\.(.*)", r"layers.\1.mlp.up.\2"),
    (_LAYER + r"mlp\.fc2\.(.*)", r"layers.\1.mlp.down.\2"),
)
_TEXT_RENAMES = (
    *LAYER_RENAMES,
    (r"embeddings\.token_embedding\.(.*)", r"word.\1"),
    (r"embeddings\.position_embedding\.(.*)", r"position.\1"),
    (r"final_layer_norm\.(.*)", r"norm.\1"),
)
# The other tower, where it is not served, and what compares the two.
_IGNORED = (r".*position_ids", r"vision_model\..*", r"visual_projection\..*", r"logit_(scale|bias)")
