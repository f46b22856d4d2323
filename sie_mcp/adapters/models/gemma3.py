"""Gemma 3, text only: a decoder with more norms, whose local layers have positions of their own.

Source: Gemma Team 2025; defaults as in transformers' Gemma3TextConfig, whose config has an old
dialect (rope_theta, rope_local_base_freq, sliding_window_pattern) and a new one (rope_parameters,
layer_types). EmbeddingGemma sees both ways (use_bidirectional_attention).
"""

from dataclasses import replace

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import Rotary, read_rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.decoder import INNER_NORMS, make_architecture
from sie_mcp.adapters.models.decoder_settings import Settings, read_shared
from sie_mcp.adapters.models.gemma import as_gemma
from sie_mcp.adapters.models.layer_types import FULL, SLIDING, is_causal, window_of, windows_of
from sie_mcp.adapters.models.settings import require

_HEAD_DIM = 256
_GLOBAL_THETA, _LOCAL_THETA = 1_000_000.0, 10_000.0
_EVERY = 6


def _read(config: Config) -> Settings:
    # The reference reads the key and caps nothing: whoever sets it may mean either.
    require(config, {"attn_logit_softcapping": (None,)})
    config = {"head_dim": _HEAD_DIM, "num_key_value_heads": 4, **config}
    kinds = _kinds(config)
    rotary = {FULL: _global_rotary(config), SLIDING: _local_rotary(config)}
    windows = windows_of(kinds, config["num_hidden_layers"], _window(config))
    settings = read_shared(config, windows=windows, rotary=tuple(rotary[kind] for kind in kinds))
    return replace(
        as_gemma(settings, config),
        act=config.get("hidden_activation", "gelu_pytorch_tanh"),
        scale=config.get("query_pre_attn_scalar", 256) ** -0.5,
        has_head_norms=True,
        has_inner_norms=True,
    )


def _kinds(config: Config) -> list[str]:
    given: list[str] | None = config.get("layer_types")
    if given is not None:
        return given
    every = config.get("sliding_window_pattern", _EVERY)
    count = config["num_hidden_layers"]
    return [SLIDING if (place + 1) % every else FULL for place in range(count)]


def _window(config: Config) -> Window:
    size = config.get("sliding_window", 4096)
    if size is not None and _sees_both_ways(config):
        # Here the size is that of both sides together.
        return (size // 2, size // 2)
    return window_of(size, causal=is_causal(config))


def _sees_both_ways(config: Config) -> bool:
    return bool(config.get("use_bidirectional_attention"))


def _global_rotary(config: Config) -> Rotary:
    theta = config.get("rope_theta") or _GLOBAL_THETA
    return read_rotary(config, theta=theta, layer_type=FULL)


def _local_rotary(config: Config) -> Rotary:
    # The old dialect scales the global layers only.
    theta = config.get("rope_local_base_freq") or _LOCAL_THETA
    return read_rotary({**config, "rope_scaling": None}, theta=theta, layer_type=SLIDING)


ARCHITECTURE = replace(
    make_architecture(_read, INNER_NORMS, classifies_tokens=False), overflows_float16=True
)
