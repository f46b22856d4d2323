"""Python, torch, the device, flash-attn and memory. Asks the probe; never imports torch itself."""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from sie_mcp.config import Config
from sie_mcp.doctor.findings import Finding, size_text

# Importing torch from a cold disk takes up to half a minute.
PROBE_LIMIT_S = 60.0
PROBE = (sys.executable, "-P", "-m", "sie_mcp.doctor.probe")
# The smallest models of the catalogue need some hundred megabytes with their workspace.
LEAST_MEMORY_BYTES = 1_000_000_000
INSTALL_ENGINE = "pip install 'sie-mcp[engine]'"


def python() -> list[Finding]:
    """Say which Python runs, and where from."""
    text = f"{platform.python_version()} at {sys.executable}, {platform.platform(terse=True)}"
    if sys.platform == "win32":
        fix = "run `sie-mcp worker --port 9000` and set SIE_MCP_WORKER_URL=http://127.0.0.1:9000"
        return [Finding("python", "warn", f"{text}: no shared local worker on Windows", fix)]
    return [Finding("python", "ok", text)]


def engine(config: Config, command: Sequence[str] = PROBE) -> list[Finding]:
    """Look at torch, the device, flash-attn and the memory for models."""
    if config.worker_url is not None:
        return [Finding("torch", "ok", "not needed here: worker_url names a worker elsewhere")]
    try:
        done = subprocess.run(
            [*command, config.device, config.dtype, config.memory_budget, config.cpu_backend],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        text = f"importing torch took more than {PROBE_LIMIT_S:g} s"
        return [Finding("torch", "fail", text, "look at the disk and at the GPU's driver")]
    if done.returncode:
        return [_broken(done.stderr)]
    seen = json.loads(done.stdout)
    memory = [_memory(device) for device in seen.get("devices", [])]
    return [_torch(seen), *_device(seen), *memory]


def _broken(stderr: str) -> Finding:
    reason = (stderr.strip().splitlines() or ["it ended without a word"])[-1][:300]
    if "ModuleNotFoundError" in reason:
        return Finding("torch", "fail", f"the engine is not installed ({reason})", INSTALL_ENGINE)
    return Finding("torch", "fail", f"it cannot be used: {reason}", f"reinstall: {INSTALL_ENGINE}")


def _torch(seen: dict[str, Any]) -> Finding:
    build = f"CUDA {seen['cuda']}" if seen["cuda"] else "no CUDA"
    text = f"{seen['torch']}, {build}"
    if not seen["gpus"] and shutil.which("nvidia-smi"):
        fix = "install a CUDA build of torch that fits the driver (see nvidia-smi)"
        return Finding("torch", "warn", f"{text}: it does not see the NVIDIA GPU", fix)
    return Finding("torch", "ok", text)


def _device(seen: dict[str, Any]) -> list[Finding]:
    if "refused" in seen:
        return [Finding("device", "fail", seen["refused"], "change or unset that setting")]
    names = f" ({', '.join(seen['gpus'])})" if seen["gpus"] else ""
    text = ", ".join(f"{device['name']} in {device['dtype']}" for device in seen["devices"]) + names
    if any(device["gains_from_bfloat16"] for device in seen["devices"]):
        text += "; SIE_MCP_DTYPE=bfloat16 is faster on this CPU"
    return [Finding("device", "ok", text), _flash_attn(seen)]


def _flash_attn(seen: dict[str, Any]) -> Finding:
    found = seen["flash_attn"]
    if "error" in found:
        fix = "rebuild it for this torch (pip install --no-build-isolation flash-attn) or remove it"
        return Finding("flash-attn", "fail", f"installed and broken: {found['error']}", fix)
    if "version" in found:
        return Finding("flash-attn", "ok", found["version"])
    if not any(device["name"].startswith("cuda") for device in seen["devices"]):
        return Finding("flash-attn", "ok", "not installed, and of use on CUDA alone")
    text = "not installed: torch's own packed attention is used"
    return Finding("flash-attn", "warn", text, "pip install 'sie-mcp[engine,flash]'")


def _memory(device: dict[str, Any]) -> Finding:
    budget, free = device["budget_bytes"], device["free_bytes"]
    text = f"{size_text(budget)} for models, of {size_text(free)} free on {device['name']}"
    if budget > free:
        return Finding("memory", "warn", text, "lower SIE_MCP_MEMORY_BUDGET, or free memory")
    if budget < LEAST_MEMORY_BYTES:
        return Finding("memory", "warn", text, "free memory, or raise SIE_MCP_MEMORY_BUDGET")
    return Finding("memory", "ok", text)
