"""What torch says of this machine, as one line of JSON: a program of its own.

Run as `python -m sie_mcp.doctor.probe DEVICE DTYPE MEMORY_BUDGET CPU_BACKEND`. Importing torch
takes seconds and can hang on a broken driver, so whoever asks does so from another process, with a
limit.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import sys
from typing import Any

import torch

from sie_mcp.engine.hardware import (
    budget_bytes,
    choose_cpu_backend,
    choose_devices,
    choose_dtype,
    free_bytes,
    gains_from_bfloat16,
)
from sie_mcp.errors import SettingError


def probe(
    device_name: str, dtype_name: str, memory_budget: str, cpu_backend: str = "torch"
) -> dict[str, Any]:
    """Return versions, devices and budget; `refused` holds what the settings ask for in vain."""
    seen: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
        "has_mps": torch.backends.mps.is_available(),
        "flash_attn": _flash_attn(),
    }
    try:
        choose_cpu_backend(cpu_backend)
        # One that is used as several shares its memory among them: it is looked at once.
        devices = dict.fromkeys(choose_devices(device_name))
        seen["devices"] = [_device(one, dtype_name, memory_budget) for one in devices]
    except SettingError as error:
        seen["refused"] = str(error)
    return seen


def _device(device: torch.device, dtype_name: str, memory_budget: str) -> dict[str, Any]:
    dtype = choose_dtype(dtype_name, device)
    return {
        "name": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "gains_from_bfloat16": gains_from_bfloat16(dtype, device),
        "free_bytes": free_bytes(device),
        "budget_bytes": budget_bytes(memory_budget, device),
    }


def _flash_attn() -> dict[str, str]:
    """Return its version, or why it cannot be imported; nothing where it is not installed."""
    if importlib.util.find_spec("flash_attn") is None:
        return {}
    try:
        importlib.import_module("flash_attn")
        return {"version": importlib.metadata.version("flash-attn")}
    except (ImportError, OSError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(*sys.argv[1:])) + "\n")
