"""The Pooling module's two dialects, as sentence-transformers reads them."""

from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.recipe import PoolingMode
from sie_mcp.errors import ModelLoadFailed

# The old dialect's flags, in the order in which several are concatenated.
_FLAGS: dict[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODES = tuple(_FLAGS.values())


def read_pooling(files: Files, path: str) -> tuple[tuple[PoolingMode, ...], bool]:
    """Return the modes in order of concatenation, and whether prompt tokens count.

    Raises:
        ModelLoadFailed: an unknown mode, naming file, key and value.
    """
    name = f"{path}/config.json" if path else "config.json"
    config = files.read(name)
    modes = _modes(config, name)
    files.decide("pooling", "+".join(modes), name)
    return modes, bool(config.get("include_prompt", True))


def _modes(config: dict[str, Any], name: str) -> tuple[PoolingMode, ...]:
    if "pooling_mode" in config:
        given = config["pooling_mode"]
        modes = tuple(given) if isinstance(given, list) else (given,)
        for mode in modes:
            if mode not in _MODES:
                raise ModelLoadFailed(
                    f"{name}: pooling_mode {mode!r} is unknown; known: {', '.join(_MODES)}"
                )
        return modes
    unknown = [
        key
        for key in config
        if key.startswith("pooling_mode_") and key not in _FLAGS and config[key]
    ]
    if unknown:
        raise ModelLoadFailed(f"{name}: {unknown[0]} = {config[unknown[0]]!r} is unknown")
    return tuple(mode for flag, mode in _FLAGS.items() if config.get(flag)) or ("mean",)
