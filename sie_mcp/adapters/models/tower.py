"""What CLIP's and SigLIP's towers are made of: pre-norm layers, and the tower for texts.

Source: Radford et al. 2021; tensor names as in transformers' CLIPModel, which SigLIP's share.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.mlp import Mlp
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

    def forward(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        qkv = self.qkv(self.attention_norm(x)).view(len(x), 3, self.num_heads, -1)
        q, k, v = qkv.unbind(1)
        x = x + self.out(attention(q, k, v, batch, causal=self.is_causal).flatten(1))
        added: torch.Tensor = x + self.mlp(self.mlp_norm(x))
        return added


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
        x = self.word(batch.input_ids) + self.position(batch.position_ids)
        for layer in self.layers:
            x = layer(x, batch)
        normed: torch.Tensor = self.norm(x)
        return normed


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
