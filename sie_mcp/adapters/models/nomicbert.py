"""NomicBERT over packed sequences: BERT with rotary positions, and a gated MLP or experts.

Sources: Nussbaum et al. 2024; with experts, Nussbaum & Duderstadt 2025. Tensors have the names of
the authors' checkpoints, which transformers writes too; config.json speaks as the authors do (in
GPT-2's names) or as transformers does.
"""

from torch import nn

from sie_mcp.adapters.layers.experts import Experts
from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS
from sie_mcp.adapters.models.rotary_bert import RotaryBert
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


def _build(config: Config) -> nn.Module:
    require(config, _SERVED)
    theta = config.get("rotary_emb_base", _DEFAULT_THETA)
    mlps = [_experts(config) if one else _mlp(config) for one in _have_experts(config)]
    has_bias = config.get("qkv_proj_bias", False)
    return RotaryBert(config, theta=theta, mlps=mlps, has_bias=has_bias)


def _have_experts(config: Config) -> list[bool]:
    """Return which layers have experts: of every so many the second, as in the authors' code."""
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
        return GatedMlp(*sizes, _act(config), has_up_bias=has_bias, has_down_bias=has_bias)
    return Mlp(*sizes, _act(config), has_bias=has_bias)


def _act(config: Config) -> str:
    name: str = config.get("hidden_act", "silu")
    return _GATES.get(name, name)


_LAYER = r"encoder\.layers\.(\d+)\."

ARCHITECTURE = Architecture(
    build=_build,
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
