"""Which layers of a decoder see everything and which a window, and whether any sees ahead."""

from collections.abc import Sequence

from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.model import Config
from sie_mcp.adapters.models.settings import require
from sie_mcp.errors import ModelLoadFailed

FULL, SLIDING = "full_attention", "sliding_attention"
_BOTH_WAYS = "use_bidirectional_attention"
_KINDS = {"causal": True, "bidirectional": False}


def is_causal(config: Config) -> bool:
    """Return whether a token sees only what is before it; embedding models may say it does not."""
    return stated_causal(config) is not False


def stated_causal(config: Config) -> bool | None:
    """Return what config.json says of it in any of its words; None where it is silent.

    Raises:
        ModelLoadFailed: a word for it that we do not know, or two keys that disagree.
    """
    require(config, {"attn_type": (None, *_KINDS)})
    said = {
        "is_causal": config.get("is_causal"),
        "attn_type": _KINDS.get(config.get("attn_type") or ""),
        # False is a default that saved files have: it says nothing.
        _BOTH_WAYS: False if config.get(_BOTH_WAYS) else None,
    }
    answers = {bool(value) for value in said.values() if value is not None}
    if len(answers) > 1:
        given = ", ".join(f"{key} {config[key]!r}" for key, one in said.items() if one is not None)
        raise ModelLoadFailed(
            f"config.json: {given} disagree; the catalogue's is_causal can say which holds"
        )
    return answers.pop() if answers else None


def window_of(size: int | None, *, causal: bool) -> Window:
    """Return a window as attention takes it; if causal, its size counts the token itself."""
    if size is None:
        return None
    return (size - 1, 0) if causal else (size, size)


def windows_of(kinds: Sequence[str], count: int, window: Window) -> tuple[Window, ...]:
    """Return each layer's window.

    Raises:
        ModelLoadFailed: a kind that we do not know, not one a layer, or none that has a width.
    """
    if len(kinds) != count or not set(kinds) <= {FULL, SLIDING}:
        raise ModelLoadFailed(
            f"config.json: layer_types {kinds!r} is not supported; "
            f"each of the {count} must be {FULL} or {SLIDING}"
        )
    if window is None and SLIDING in kinds:
        raise ModelLoadFailed(
            f"config.json: layer_types has {SLIDING} without a window; "
            "sliding_window must say how far it reaches"
        )
    return tuple(window if kind == SLIDING else None for kind in kinds)
