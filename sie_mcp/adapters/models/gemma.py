"""Gemma and Gemma 2: decoders that scale their word vectors and count norms from one.

Sources: Gemma Team 2024a and 2024b; defaults as in transformers' GemmaConfig and Gemma2Config.
"""

from dataclasses import replace

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import read_rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.decoder import INNER_NORMS, NORMS, make_architecture
from sie_mcp.adapters.models.decoder_settings import Settings, read_shared, with_biases
from sie_mcp.adapters.models.layer_types import FULL, SLIDING, is_causal, window_of, windows_of
from sie_mcp.adapters.models.settings import require

_THETA = 10_000.0
_ACT = "gelu_pytorch_tanh"
_SOFTCAP = 50.0


def _read(config: Config) -> Settings:
    # The first files said "gelu" and meant its tanh form.
    act = config.get("hidden_act", _ACT)
    act = _ACT if act == "gelu" else act
    require(config, {"hidden_activation": (None, act)})
    config = {"num_key_value_heads": 16, **config}
    return replace(_settings(config, (None,) * config["num_hidden_layers"]), act=act)


def _read_2(config: Config) -> Settings:
    count = config["num_hidden_layers"]
    kinds = config.get("layer_types") or [FULL if place % 2 else SLIDING for place in range(count)]
    window = window_of(config.get("sliding_window", 4096), causal=is_causal(config))
    config = {"num_key_value_heads": 4, **config}
    return replace(
        _settings(config, windows_of(kinds, count, window)),
        act=config.get("hidden_activation", _ACT),
        scale=config.get("query_pre_attn_scalar", 256) ** -0.5,
        softcap=config.get("attn_logit_softcapping", _SOFTCAP),
        has_inner_norms=True,
    )


def _settings(config: Config, windows: tuple[Window, ...]) -> Settings:
    rotary = read_rotary({"head_dim": 256, **config}, theta=config.get("rope_theta") or _THETA)
    return as_gemma(read_shared(config, windows=windows, rotary=(rotary,) * len(windows)), config)


def as_gemma(settings: Settings, config: Config) -> Settings:
    """Add what every Gemma does: norms from one, scaled word vectors, biases where asked for."""
    return replace(
        with_biases(settings, config),
        norms_from_one=True,
        embedding_scale=config["hidden_size"] ** 0.5,
    )


GEMMA = make_architecture(_read, NORMS, classifies_tokens=True)
GEMMA2 = replace(
    make_architecture(_read_2, INNER_NORMS, classifies_tokens=True), overflows_float16=True
)
