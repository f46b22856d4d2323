"""Gemma and Gemma 2: decoders that scale their word vectors and count norms from one.

Sources: Gemma Team 2024a and 2024b; defaults as in transformers' GemmaConfig and Gemma2Config.
"""

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import read_rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.decoder import INNER_NORMS, NORMS, Settings, make_architecture
from sie_mcp.adapters.models.layer_types import FULL, SLIDING, is_causal, window_of, windows_of
from sie_mcp.adapters.models.settings import require

_THETA = 10_000.0
_ACT = "gelu_pytorch_tanh"
_SOFTCAP = 50.0


def _read(config: Config) -> Settings:
    count = config["num_hidden_layers"]
    # The first files said "gelu" and meant its tanh form.
    act = config.get("hidden_act", _ACT)
    act = _ACT if act == "gelu" else act
    require(config, {"hidden_activation": (None, act)})
    return _settings({"num_key_value_heads": 16, **config}, act=act, windows=(None,) * count)


def _read_2(config: Config) -> Settings:
    count = config["num_hidden_layers"]
    kinds = config.get("layer_types") or [FULL if place % 2 else SLIDING for place in range(count)]
    window = window_of(config.get("sliding_window", 4096), causal=is_causal(config))
    return _settings(
        {"num_key_value_heads": 4, **config},
        act=config.get("hidden_activation", _ACT),
        windows=windows_of(kinds, count, window),
        scale=config.get("query_pre_attn_scalar", 256) ** -0.5,
        softcap=config.get("attn_logit_softcapping", _SOFTCAP),
        has_inner_norms=True,
    )


def _settings(
    config: Config,
    *,
    act: str,
    windows: tuple[Window, ...],
    scale: float | None = None,
    softcap: float | None = None,
    has_inner_norms: bool = False,
) -> Settings:
    """Read what both share."""
    rotary = read_rotary({"head_dim": 256, **config}, theta=config.get("rope_theta") or _THETA)
    has_bias = config.get("attention_bias", False)
    return Settings(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        num_kv_heads=config["num_key_value_heads"],
        head_dim=rotary.head_dim,
        eps=config.get("rms_norm_eps", 1e-6),
        act=act,
        is_causal=is_causal(config),
        windows=windows,
        rotary=(rotary,) * len(windows),
        scale=scale,
        softcap=softcap,
        qkv_bias=has_bias,
        out_bias=has_bias,
        norms_from_one=True,
        has_inner_norms=has_inner_norms,
        embedding_scale=config["hidden_size"] ** 0.5,
    )


GEMMA = make_architecture(_read, NORMS, classifies_tokens=True)
GEMMA2 = make_architecture(_read_2, INNER_NORMS, classifies_tokens=True)
