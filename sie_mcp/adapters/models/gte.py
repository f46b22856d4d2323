"""GTE over packed sequences: BERT with rotary positions and a gated MLP, biased but for its gate.

Source: Zhang et al. 2024 (mGTE). Two dialects: the authors' own (model_type "new", which Snowflake
Arctic Embed 2, Stella and others took over) and that of transformers ("gte"). They compute the
same but for the masked language model's head, whose activation transformers fixes. The authors'
code stretches rotary positions in one way alone: ntk, with or without mixed_b, as in vLLM's
ntk_scaling_rope.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.adapters.models.rotary_bert import RotaryBert
from sie_mcp.adapters.models.settings import require
from sie_mcp.errors import ModelLoadFailed

# The references', where config.json is silent.
_NEW_THETA, _GTE_THETA = 10_000.0, 160_000.0
# What the authors' code can also do, and no checkpoint that we serve does.
_SERVED = {"layer_norm_type": ("layer_norm",), "logn_attention_scale": (False,)}
_SCALINGS = ("default", "ntk")


def _build_new(config: Config) -> nn.Module:
    require(config, _SERVED)
    if config.get("rope_scaling"):
        _check_scaling(config["rope_scaling"])
    return _build(config, _NEW_THETA)


def _check_scaling(scaling: Mapping[str, Any]) -> None:
    """Refuse what the authors' code does not know, where that of transformers would."""
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind not in _SCALINGS:
        raise ModelLoadFailed(
            f"config.json: rope_type {kind!r} is not supported; supported: {', '.join(_SCALINGS)}"
        )


def _build_gte(config: Config) -> nn.Module:
    return _build(config, _GTE_THETA)


def _build(config: Config, theta: float) -> nn.Module:
    # Both references have one type of tokens where config.json is silent.
    config = {"type_vocab_size": 1, **config}
    theta = config.get("rope_theta", theta)
    return RotaryBert(config, theta=theta, mlps=_mlps(config), has_bias=True)


def _mlps(config: Config) -> list[nn.Module]:
    return [
        GatedMlp(
            config["hidden_size"],
            config["intermediate_size"],
            config.get("hidden_act", "gelu"),
            has_down_bias=True,
            is_gate_first=False,
        )
        for _ in range(config["num_hidden_layers"])
    ]


_QKV = ("q_proj", "k_proj", "v_proj")
_OLD, _TODAY = r"encoder\.layer\.(\d+)\.", r"layers\.(\d+)\."
_RENAMES = (
    (r"embeddings\.word_embeddings\.(.*)", r"embeddings.word.\1"),
    (r"embeddings\.token_type_embeddings\.(.*)", r"embeddings.token_type.\1"),
    (r"embeddings\.LayerNorm\.(.*)", r"embeddings.norm.\1"),
    # pack_qkv false keeps the three apart.
    *fused(_OLD + r"attention\.", _QKV, r"layers.\1.qkv"),
    (_OLD + r"attention\.qkv_proj\.(.*)", r"layers.\1.qkv.\2"),
    (_OLD + r"attention\.o_proj\.(.*)", r"layers.\1.out.\2"),
    (_OLD + r"attn_ln\.(.*)", r"layers.\1.attention_norm.\2"),
    (_OLD + r"mlp\.up_gate_proj\.(.*)", r"layers.\1.mlp.up.\2"),
    (_OLD + r"mlp\.down_proj\.(.*)", r"layers.\1.mlp.down.\2"),
    (_OLD + r"mlp_ln\.(.*)", r"layers.\1.mlp_norm.\2"),
    # Transformers writes the names above; these are its modules', which others save.
    *fused(_TODAY + r"self_attn\.", _QKV, r"layers.\1.qkv"),
    (_TODAY + r"self_attn\.o_proj\.(.*)", r"layers.\1.out.\2"),
    (_TODAY + r"post_attention_layernorm\.(.*)", r"layers.\1.attention_norm.\2"),
    *fused(_TODAY + r"mlp\.", ("up_proj", "gate_proj"), r"layers.\1.mlp.up"),
    (_TODAY + r"mlp\.down_proj\.(.*)", r"layers.\1.mlp.down.\2"),
    (_TODAY + r"post_mlp_layernorm\.(.*)", r"layers.\1.mlp_norm.\2"),
)


def _architecture(
    build: Callable[[Config], nn.Module], *, head_act: Callable[[Config], str] | None
) -> Architecture:
    return Architecture(
        build=build,
        renames=_RENAMES,
        prefixes=("new.", "gte.", *WRAPPERS),
        ignored=(r"pooler\..*", r"lm_head\..*", r"classifier\..*"),
        heads={
            "sparse": vocabulary_head(
                dense=r"lm_head\.dense",
                norm=r"lm_head\.(?:layer_)?norm",
                decoder=r"lm_head\.decoder",
                act=head_act,
            ),
            "cross_encoder": classifier_head(dense=r"pooler\.dense"),
            "token_classification": TOKEN_HEAD,
        },
        position_embedding_types=("rope",),
    )


NEW = _architecture(_build_new, head_act=None)
GTE = _architecture(_build_gte, head_act=lambda _: "gelu")
