"""Settings of config.json that a family serves only some values of: any other is refused.

A wrong vector is worse than a refusal, and a setting that we ignore makes wrong vectors.
"""

from collections.abc import Mapping
from typing import Any

from sie_mcp.adapters.model import Config
from sie_mcp.errors import ModelLoadFailed


def require(config: Config, served: Mapping[str, tuple[Any, ...]]) -> None:
    """Check that each setting, where config.json has it, is one of those served.

    Raises:
        ModelLoadFailed: another value; names the key, the value and those served.
    """
    for key, values in served.items():
        if key in config and config[key] not in values:
            known = ", ".join(repr(value) for value in values)
            raise ModelLoadFailed(
                f"config.json: {key} {config[key]!r} is not supported; supported: {known}"
            )
