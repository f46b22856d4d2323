"""NomicBERT over packed sequences: BERT with rotary positions, and a gated MLP or experts.

Sources: Nussbaum et al. 2024; with experts, Nussbaum & Duderstadt 2025. Tensors have the names of
the authors' checkpoints, which transformers writes too; config.json speaks as the authors do (in
GPT-2's names) or as transformers does.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.experts import Experts
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.layers.rotary import Turns, read_rotary, rotate
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS
from sie_mcp.adapters.models.settings import require
from sie_mcp.errors import ModelLoadFailed

_DEFAULT_THETA = 1000.0
# The authors name the gated unit, transformers its activation.
_GATES = {"swiglu": "silu", "geglu": "gelu"}
# What the authors' code can also do, and no checkpoint that we serve does.
_SERVED = {
    "causal": (False,),
    "parallel_block": (False,),
    "prenorm": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (1.0, None),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "use_rms_norm": (False, None),
}
_SERVED_EXPERTS = {
    "activation_function": ("gelu",),
    "expert_choice_router": (False, None),
    "ffn_div": (1, None),
    "moe_normalize_expert_weights": (False, None),
    "num_shared_experts": (0, None),
}


class Embeddings(nn.Module):
    """Word + token type, normalised: positions come in as rotations."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden_size, num_types = config["hidden_size"], config.get("type_vocab_size", 2)
        self.word = nn.Embedding(config["vocab_size"], hidden_size)
        self.token_type = nn.Embedding(num_types, hidden_size) if num_types else None
        self.norm = nn.LayerNorm(hidden_size, eps=config.get("layer_norm_eps", 1e-12))

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids)
        if self.token_type is not None:
            x = x + self.token_type(batch.token_type_ids)
        embedded: torch.Tensor = self.norm(x)
        return embedded


class Layer(nn.Module):
    """Attention and an MLP of some kind, each followed by residual and norm."""

    def __init__(self, config: Config, *, has_experts: bool) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.num_heads = config["num_attention_heads"]
        width = self.num_heads * (config.get("head_dim") or hidden_size // self.num_heads)
        has_bias = config.get("qkv_proj_bias", False)
        self.qkv = nn.Linear(hidden_size, 3 * width, bias=has_bias)
        self.out = nn.Linear(width, hidden_size, bias=has_bias)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.mlp = _experts(config) if has_experts else _mlp(config)
        self.mlp_norm = nn.LayerNorm(hidden_size, eps=eps)

    def forward(self, x: torch.Tensor, batch: PackedBatch, turns: Turns) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        q, k, v = self.qkv(x).view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attention(rotate(q, turns), rotate(k, turns), v, batch).flatten(1)
        x = self.attention_norm(x + self.out(attended))
        normed: torch.Tensor = self.mlp_norm(x + self.mlp(x))
        return normed


class NomicBert(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        require(config, _SERVED)
        self.embeddings = Embeddings(config)
        self.rotary = read_rotary(config, theta=config.get("rotary_emb_base", _DEFAULT_THETA))
        self.layers = nn.ModuleList(
            Layer(config, has_experts=has_experts) for has_experts in _have_experts(config)
        )

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x: torch.Tensor = self.embeddings(batch)
        turns = self.rotary.turns(batch)
        for layer in self.layers:
            x = layer(x, batch, turns)
        return x


def _have_experts(config: Config) -> list[bool]:
    """Return which layers have experts: of every so many the second."""
    every, count = config.get("moe_every_n_layers") or 0, config["num_hidden_layers"]
    if every < 0 or every == 1:
        raise ModelLoadFailed(
            f"config.json: moe_every_n_layers {every} is not supported; supported: 0, 2 and more"
        )
    return [every > 0 and place % every == 1 for place in range(count)]


def _experts(config: Config) -> nn.Module:
    require({"activation_function": None, **config}, _SERVED_EXPERTS)
    return Experts(
        config["hidden_size"],
        config["intermediate_size"],
        _act(config),
        num_experts=config["num_experts"],
        top_k=config["moe_top_k"],
    )


def _mlp(config: Config) -> nn.Module:
    """Build the MLP; in the authors' dialect it has a gate only where its activation says so."""
    sizes = config["hidden_size"], config["intermediate_size"]
    has_bias = config.get("mlp_fc1_bias", False)
    require(config, {"mlp_fc2_bias": (has_bias,)})
    if config.get("activation_function", "swiglu") in _GATES:
        return GatedMlp(*sizes, _act(config), has_bias=has_bias)
    return Mlp(*sizes, _act(config), has_bias=has_bias)


def _act(config: Config) -> str:
    name: str = config.get("hidden_act", "silu")
    return _GATES.get(name, name)


_LAYER = r"encoder\.layers\.(\d+)\."

ARCHITECTURE = Architecture(
    build=NomicBert,
    renames=(
        (r"embeddings\.word_embeddings\.(.*)", r"embeddings.word.\1"),
        (r"embeddings\.token_type_embeddings\.(.*)", r"embeddings.token_type.\1"),
        (r"emb_ln\.(.*)", r"embeddings.norm.\1"),
        (_LAYER + r"attn\.Wqkv\.(.*)", r"layers.\1.qkv.\2"),
        (_LAYER + r"attn\.out_proj\.(.*)", r"layers.\1.out.\2"),
        (_LAYER + r"norm1\.(.*)", r"layers.\1.attention_norm.\2"),
        (_LAYER + r"mlp\.fc12\.(.*)", r"layers.\1.mlp.up.\2#0"),
        (_LAYER + r"mlp\.fc11\.(.*)", r"layers.\1.mlp.up.\2#1"),
        (_LAYER + r"mlp\.fc1\.(.*)", r"layers.\1.mlp.up.\2"),
        (_LAYER + r"mlp\.fc2\.(.*)", r"layers.\1.mlp.down.\2"),
        (_LAYER + r"mlp\.experts\.mlp\.w1", r"layers.\1.mlp.up"),
        (_LAYER + r"mlp\.experts\.mlp\.w2", r"layers.\1.mlp.down"),
        (_LAYER + r"mlp\.experts\.bias", r"layers.\1.mlp.bias"),
        (_LAYER + r"mlp\.router\.layer\.(.*)", r"layers.\1.mlp.router.\2"),
        (_LAYER + r"norm2\.(.*)", r"layers.\1.mlp_norm.\2"),
    ),
    # "bert.": the authors' own masked language model.
    prefixes=("nomic_bert.", "bert.", *WRAPPERS),
    ignored=(r"pooler\..*", r"cls\..*", r"classifier\..*"),
    heads={
        "sparse": vocabulary_head(
            dense=r"cls\.predictions\.transform\.dense",
            norm=r"cls\.predictions\.transform\.layer_norm",
            decoder=r"cls\.predictions\.decoder",
            bias=r"cls\.predictions\.bias",
            act=_act,
        ),
        "cross_encoder": classifier_head(dense=r"pooler\.dense"),
        "token_classification": TOKEN_HEAD,
    },
    config_names={
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "activation_function": "hidden_act",
    },
)
