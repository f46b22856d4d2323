"""All settings, parsed once from flags and `SIE_MCP_*`; nobody else reads the environment.

The pieces in `settings` know names, types and limits; this knows where values come from, and what
to say of wrong ones. Neither knows what the settings do.
"""

import difflib
import os
import re
from typing import Any, Literal

import pydantic
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sie_mcp.errors import SettingError
from sie_mcp.setting_types import LogLevel, wants_traces
from sie_mcp.settings.batches import BatchSettings
from sie_mcp.settings.callers import CallerSettings
from sie_mcp.settings.device import DeviceSettings
from sie_mcp.settings.front import FrontSettings
from sie_mcp.settings.places import PlaceSettings
from sie_mcp.settings.tools import ToolSettings
from sie_mcp.settings.workers import WorkerSettings

PREFIX = "SIE_MCP_"


# Pydantic collects fields from the last base to the first, and names wrong settings in that order.
class Config(
    CallerSettings,
    FrontSettings,
    ToolSettings,
    WorkerSettings,
    BatchSettings,
    DeviceSettings,
    PlaceSettings,
    BaseSettings,
):
    """The settings of every program. Each field can be set as `SIE_MCP_<FIELD>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=True
    )

    tracing: Literal["auto", "on", "off"] = Field(
        default="auto", description="auto: on where OTEL_* variables say where traces go."
    )
    log_level: LogLevel = "INFO"

    @property
    def wants_traces(self) -> bool:
        """Whether OTEL_* variables say where traces go."""
        return wants_traces(os.environ)


def load_config(**flags: Any) -> Config:
    """Parse flags (None means not given) over the environment.

    Raises:
        SettingError: an unknown or unparsable setting, with the nearest known name.
    """
    _refuse_unknown_variables()
    try:
        return Config(**{name: value for name, value in flags.items() if value is not None})
    except pydantic.ValidationError as error:
        raise SettingError(_explain(error)) from error


def _refuse_unknown_variables() -> None:
    for variable, value in sorted(os.environ.items()):
        name = variable.upper().removeprefix(PREFIX).lower()
        if variable.upper().startswith(PREFIX) and name not in Config.model_fields:
            raise SettingError(f"unknown setting {variable}={_shown(value)}{_nearest(name)}")


def _explain(error: pydantic.ValidationError) -> str:
    parts = []
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else "settings"
        hint = "" if name in Config.model_fields else _nearest(name)
        problem = detail["msg"].removeprefix("Value error, ")
        parts.append(f"setting {_variable(name)} = {_shown(detail['input'])}: {problem}{hint}")
    return "; ".join(parts)


def _shown(value: object) -> str:
    """Write a value without the password that an address may hold, before @ or behind ?."""
    return re.sub(r":.*[@?].*", ":…'", repr(value))


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, sorted(Config.model_fields), n=1)
    return f"; did you mean {_variable(close[0])}?" if close else ""


def _variable(name: str) -> str:
    return PREFIX + name.upper()
