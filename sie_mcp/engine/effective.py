"""Settings as they came out: what was asked for, what is in force, and why where they differ.

Reads the settings and the devices; changes nothing.
"""

import logging
from collections.abc import Iterator, Sequence

import torch

from sie_mcp import wire
from sie_mcp.config import Config
from sie_mcp.engine.hardware import choose_dtype, max_batch_tokens
from sie_mcp.engine.lane import Lane

logger = logging.getLogger(__name__)


def batch_tokens_of(
    setting: int | None, device: torch.device, total_bytes: int, bytes_per_token: int
) -> int:
    """Return the tokens of one forward pass: what was asked for, but no more than memory allows.

    A quarter of the memory may be a batch's. The default is not lowered: batches of one model
    that run out of memory lower it themselves.
    """
    wanted = max_batch_tokens(setting, device)
    return wanted if setting is None else max(min(wanted, total_bytes // 4 // bytes_per_token), 1)


def effective_settings(
    config: Config, devices: Sequence[torch.device], lanes: Sequence[Lane]
) -> list[wire.EffectiveSetting]:
    """Return them, once a device where devices differ; warn of what was lowered."""
    found = list(dict.fromkeys(_each(config, devices, lanes)))
    settings = [
        wire.EffectiveSetting(name=name, requested=asked, effective=got, reason=why)
        for name, asked, got, why in found
    ]
    for one in settings:
        if one.name == "max_batch_tokens" and one.requested not in ("auto", one.effective):
            logger.warning(
                "setting %s=%s is %s here: %s", one.name, one.requested, one.effective, one.reason
            )
    return settings


def measured_settings(lanes: Sequence[Lane]) -> list[wire.EffectiveSetting]:
    """Return what was measured since, or in earlier runs."""
    known = [lane.thread.batch_sizes for lane in lanes]
    return [row for one in known if one is not None for row in one.settings()]


def _each(
    config: Config, devices: Sequence[torch.device], lanes: Sequence[Lane]
) -> Iterator[tuple[str, str, str, str | None]]:
    for device, lane in zip(devices, lanes, strict=True):
        yield _row("device", config.device, str(device), "of those that are here")
        dtype = str(choose_dtype(config.dtype, device)).removeprefix("torch.")
        yield _row("dtype", config.dtype, dtype, f"what {device.type} is best at")
        asked, got = config.max_batch_tokens, lane.thread.max_batch_tokens
        why = f"the default on {device.type}" if asked is None else "a quarter of memory_budget"
        yield _row("max_batch_tokens", "auto" if asked is None else str(asked), str(got), why)
        account = lane.residency.memory()
        yield _row(
            "memory_budget",
            config.memory_budget,
            str(account["budget_bytes"]),
            "bytes, of free ones",
        )
        yield _row(
            "host_memory_budget",
            config.host_memory_budget,
            str(account["host_budget_bytes"]),
            "bytes, of free ones",
        )


def _row(name: str, asked: str, got: str, why: str) -> tuple[str, str, str, str | None]:
    return name, asked, got, None if asked == got else why
