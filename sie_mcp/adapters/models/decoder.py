"""A language model's decoder over packed sequences, as an encoder of text.

Pre-norm, rotary positions, grouped queries, gated MLP; what sets the families apart is data.
Source: Touvron et al. 2023; tensor names as in transformers' LlamaModel, which its relatives share.
"""

from collections.abc import Callable

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.grouped_attention import GroupedAttention
from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import Turns
from sie_mcp.adapters.model import Architecture, Config, Head, Renames
from sie_mcp.adapters.models.decoder_settings import Settings
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.adapters.recipe import PoolingMode


class Layer(nn.Module):
    """Attention and gated MLP, each on normed states and added."""

    def __init__(self, settings: Settings, window: Window) -> None:
        super().__init__()
        self.is_causal, self.window = settings.is_causal, window
        self.attention_norm = settings.norm(settings.hidden_size)
        self.attention = GroupedAttention(
            settings.hidden_size,
            num_heads=settings.num_heads,
            num_kv_heads=settings.num_kv_heads,
            head_dim=settings.head_dim,
            qkv_bias=settings.qkv_bias,
            out_bias=settings.out_bias,
            head_norm=settings.head_norm,
            scale=settings.scale,
            softcap=settings.softcap,
        )
        self.attended_norm = settings.inner_norm()
        self.mlp_norm = settings.norm(settings.hidden_size)
        self.mlp = GatedMlp(
            settings.hidden_size,
            settings.intermediate_size,
            settings.act,
            has_up_bias=settings.mlp_bias,
            has_down_bias=settings.mlp_bias,
        )
        self.widened_norm = settings.inner_norm()

    def forward(self, x: torch.Tensor, batch: PackedBatch, turns: Turns) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        attended = self.attention(
            self.attention_norm(x), batch, turns, causal=self.is_causal, window=self.window
        )
        x = x + self.attended_norm(attended)
        added: torch.Tensor = x + self.widened_norm(self.mlp(self.mlp_norm(x), batch))
        return added


class Decoder(nn.Module):
    """Packed ids in, hidden states out; a token sees what is before it, unless told otherwise."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        # No token's states depend on a later one: what texts begin with can be shared.
        self.is_causal = settings.is_causal
        self.word = nn.Embedding(settings.vocab_size, settings.hidden_size)
        self.embedding_scale = settings.embedding_scale
        self.rotary = settings.rotary
        self.layers = nn.ModuleList(Layer(settings, window) for window in settings.windows)
        self.norm = settings.norm(settings.hidden_size)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids)
        if self.embedding_scale != 1.0:
            # Rounded to the model's dtype, as it was in training.
            x = x * torch.tensor(self.embedding_scale).to(x.dtype)
        turns = {rotary: rotary.turns(batch) for rotary in set(self.rotary)}
        for rotary, layer in zip(self.rotary, self.layers, strict=True):
            x = layer(x, batch, turns[rotary])
        normed: torch.Tensor = self.norm(x)
        return normed


def make_architecture(
    read: Callable[[Config], Settings], norms: Renames, *, classifies_tokens: bool
) -> Architecture:
    """Return a family's row: how its config is read and what its layers' norms are called."""
    heads = {"cross_encoder": Head(build=_build_score, renames=_SCORE, pooling=_last_token)}
    if classifies_tokens:
        heads["token_classification"] = Head(build=_build_token_classifier, renames=_SCORE)
    return Architecture(
        build=lambda config: Decoder(read(config)),
        renames=(*_RENAMES, *norms),
        prefixes=(*WRAPPERS, "model."),
        ignored=(r"lm_head\..*", r"score\..*", r".*rotary_emb\.inv_freq"),
        heads=heads,
        is_causal=True,
    )


def _build_score(config: Config, num_labels: int) -> nn.Module:
    return nn.Linear(config["hidden_size"], num_labels, bias=False)


def _build_token_classifier(config: Config, num_labels: int) -> nn.Module:
    return nn.Linear(config["hidden_size"], num_labels)


def _last_token(_: Config) -> PoolingMode:
    return "lasttoken"


_LAYER = r"layers\.(\d+)\."
_RENAMES: Renames = (
    (r"embed_tokens\.(.*)", r"word.\1"),
    *fused(_LAYER + r"self_attn\.", ("q_proj", "k_proj", "v_proj"), r"layers.\1.attention.qkv"),
    (_LAYER + r"self_attn\.o_proj\.(.*)", r"layers.\1.attention.out.\2"),
    (_LAYER + r"self_attn\.([qk]_norm)\.(.*)", r"layers.\1.attention.\2.\3"),
    *fused(_LAYER + r"mlp\.", ("gate_proj", "up_proj"), r"layers.\1.mlp.up"),
    (_LAYER + r"mlp\.down_proj\.(.*)", r"layers.\1.mlp.down.\2"),
    (_LAYER + r"input_layernorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (r"norm\.(.*)", r"norm.\1"),
)
_SCORE: Renames = ((r"score\.(.*)", r"\1"),)
# What stands before the MLP; families with inner norms call that of attention's output so.
NORMS: Renames = ((_LAYER + r"post_attention_layernorm\.(.*)", r"layers.\1.mlp_norm.\2"),)
INNER_NORMS: Renames = (
    (_LAYER + r"post_attention_layernorm\.(.*)", r"layers.\1.attended_norm.\2"),
    (_LAYER + r"pre_feedforward_layernorm\.(.*)", r"layers.\1.mlp_norm.\2"),
    (_LAYER + r"post_feedforward_layernorm\.(.*)", r"layers.\1.widened_norm.\2"),
)
