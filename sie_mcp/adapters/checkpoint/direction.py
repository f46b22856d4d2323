"""Whether a decoder's tokens see what follows: the catalogue's word, or that of config.json."""

from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.models.layer_types import stated_causal
from sie_mcp.catalogue.entries import Entry
from sie_mcp.errors import ModelLoadFailed


def with_direction(
    name: str, files: Files, config: dict[str, Any], row: Architecture, entry: Entry | None
) -> dict[str, Any]:
    """Return the config with is_causal decided, where the family leaves a choice.

    Raises:
        ModelLoadFailed: the catalogue's word where there is no choice, or nobody's word on a
            checkpoint whose own code may decide.
    """
    asked = None if entry is None else entry.is_causal
    if row.is_causal is None:
        if asked is not None:
            raise ModelLoadFailed(
                f"{name}: the catalogue says is_causal, which {config['model_type']} has no "
                "choice of; leave it out"
            )
        return config
    if asked is not None:
        files.decide("is_causal", asked, "catalogue")
        return config | _words_for(asked, config)
    stated = stated_causal(config)
    if stated is None and row.is_causal and config.get("auto_map"):
        raise ModelLoadFailed(
            f"{name}: its own code (auto_map) is never run, and config.json does not say whether "
            "a token sees what follows it; is_causal in a catalogue entry can say so"
        )
    value = row.is_causal if stated is None else stated
    origin = f"default of {config['model_type']}" if stated is None else "config.json"
    files.decide("is_causal", value, origin)
    return config | {"is_causal": value}


def _words_for(is_causal: bool, config: dict[str, Any]) -> dict[str, Any]:
    """Return the keys that say so, and none that says otherwise."""
    both_ways = config.get("use_bidirectional_attention") and not is_causal
    return {
        "is_causal": is_causal,
        "attn_type": None,
        "use_bidirectional_attention": bool(both_ways),
    }
