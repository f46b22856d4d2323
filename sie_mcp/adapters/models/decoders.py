"""Llama, Mistral, Qwen2 and Qwen3: how each reads its config into the one decoder.

Sources: Touvron et al. 2023, Jiang et al. 2023, Qwen 2024 and 2025; defaults where config.json is
silent are those of transformers' configuration classes.
"""

from dataclasses import replace

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import read_rotary
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.decoder import NORMS, make_architecture
from sie_mcp.adapters.models.decoder_settings import Settings, read_shared, with_biases
from sie_mcp.adapters.models.layer_types import FULL, SLIDING, is_causal, window_of, windows_of
from sie_mcp.adapters.models.settings import require

_THETA = 10_000.0


def read_llama(config: Config) -> Settings:
    """Read Llama's config, or that of a relative."""
    settings = _settings(config, (None,) * config["num_hidden_layers"])
    return replace(with_biases(settings, config), mlp_bias=config.get("mlp_bias", False))


def _llama_bidirectional(config: Config) -> Settings:
    # How its authors pool; ours is the mean unless modules.json says otherwise.
    require(config, {"pooling": (None, "avg")})
    return read_llama({"is_causal": False, **config})


def _mistral(config: Config) -> Settings:
    window = window_of(config.get("sliding_window", 4096), causal=is_causal(config))
    return _settings({"num_key_value_heads": 8, **config}, (window,) * config["num_hidden_layers"])


def _qwen2(config: Config) -> Settings:
    settings = _settings({"num_key_value_heads": 32, **config}, _qwen_windows(config))
    return replace(settings, qkv_bias=True)


def _qwen3(config: Config) -> Settings:
    # Its heads are 128 wide unless told otherwise, whatever the hidden size.
    settings = _settings(
        {"num_key_value_heads": 32, "head_dim": 128, **config}, _qwen_windows(config)
    )
    return replace(with_biases(settings, config), has_head_norms=True)


def _settings(config: Config, windows: tuple[Window, ...]) -> Settings:
    rotary = read_rotary(config, theta=config.get("rope_theta") or _THETA)
    return read_shared(config, windows=windows, rotary=(rotary,) * len(windows))


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


LLAMA = make_architecture(read_llama, NORMS, classifies_tokens=True)
LLAMA_BIDIRECTIONAL = replace(
    make_architecture(_llama_bidirectional, NORMS, classifies_tokens=False),
    # Its rerankers put a pair into one sentence, which no file has the words of.
    heads={},
    is_causal=False,
)
MISTRAL = make_architecture(_mistral, NORMS, classifies_tokens=True)
QWEN2 = make_architecture(_qwen2, NORMS, classifies_tokens=True)
QWEN3 = make_architecture(_qwen3, NORMS, classifies_tokens=True)
