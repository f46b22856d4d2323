"""Llama, Mistral, Qwen2 and Qwen3: how each reads its config into the one decoder.

Sources: Touvron et al. 2023, Jiang et al. 2023, Qwen 2024 and 2025; defaults where config.json is
silent are those of transformers' configuration classes.
"""

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import read_rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.decoder import NORMS, Settings, make_architecture
from sie_mcp.adapters.models.layer_types import FULL, SLIDING, is_causal, window_of, windows_of

_THETA = 10_000.0


def _llama(config: Config) -> Settings:
    has_bias = config.get("attention_bias", False)
    return _settings(
        config,
        num_kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
        windows=(None,) * config["num_hidden_layers"],
        qkv_bias=has_bias,
        out_bias=has_bias,
        mlp_bias=config.get("mlp_bias", False),
    )


def _mistral(config: Config) -> Settings:
    window = window_of(config.get("sliding_window", 4096), causal=is_causal(config))
    return _settings(
        config,
        num_kv_heads=config.get("num_key_value_heads", 8) or config["num_attention_heads"],
        windows=(window,) * config["num_hidden_layers"],
    )


def _qwen2(config: Config) -> Settings:
    return _settings(
        config, num_kv_heads=_qwen_kv_heads(config), windows=_qwen_windows(config), qkv_bias=True
    )


def _qwen3(config: Config) -> Settings:
    has_bias = config.get("attention_bias", False)
    return _settings(
        # Its heads are 128 wide unless told otherwise, whatever the hidden size.
        {"head_dim": 128, **config},
        num_kv_heads=_qwen_kv_heads(config),
        windows=_qwen_windows(config),
        qkv_bias=has_bias,
        out_bias=has_bias,
        has_head_norms=True,
    )


def _settings(
    config: Config,
    *,
    num_kv_heads: int,
    windows: tuple[Window, ...],
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    has_head_norms: bool = False,
) -> Settings:
    """Read what all four share."""
    rotary = read_rotary(config, theta=config.get("rope_theta") or _THETA)
    return Settings(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        num_kv_heads=num_kv_heads,
        head_dim=rotary.head_dim,
        eps=config.get("rms_norm_eps", 1e-6),
        act=config.get("hidden_act", "silu"),
        is_causal=is_causal(config),
        windows=windows,
        rotary=(rotary,) * len(windows),
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        mlp_bias=mlp_bias,
        has_head_norms=has_head_norms,
    )


def _qwen_kv_heads(config: Config) -> int:
    heads: int = config.get("num_key_value_heads", 32) or config["num_attention_heads"]
    return heads


def _qwen_windows(config: Config) -> tuple[Window, ...]:
    """Return each layer's window; only the later layers have one, and only if it is switched on."""
    count, size = config["num_hidden_layers"], None
    if config.get("use_sliding_window", False):
        size = config.get("sliding_window", 4096)
    first = count if size is None else config.get("max_window_layers", 28)
    kinds = config.get("layer_types") or [
        SLIDING if place >= first else FULL for place in range(count)
    ]
    return windows_of(kinds, count, window_of(size, causal=is_causal(config)))


LLAMA = make_architecture(_llama, NORMS, classifies_tokens=True)
MISTRAL = make_architecture(_mistral, NORMS, classifies_tokens=True)
QWEN2 = make_architecture(_qwen2, NORMS, classifies_tokens=True)
QWEN3 = make_architecture(_qwen3, NORMS, classifies_tokens=True)
