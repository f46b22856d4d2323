"""Which settings are the worker's: how they travel to it, and who can share it.

Knows names only; nothing here starts anything.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import sie_mcp
from sie_mcp.config import PREFIX, Config

# A gateway with other values of these needs another worker.
_DECISIVE = {
    "cache_dir", "catalogue_file", "default_models", "offline", "hub_endpoint", "index_url",
    "download_timeout_s",
    "device", "dtype", "cpu_backend", "gpu_paths", "retry_nonfinite", "memory_budget",
    "num_threads", "allow_remote_code",
    "eviction", "host_memory_budget", "model_idle_s", "preload", "pinned",
    "max_batch_tokens", "max_batch_sequences", "max_queue_tokens", "max_queue_age_s", "max_items",
    "max_queue_sequences", "max_client_share", "model_weights",
    "max_item_chars", "max_request_tokens", "max_image_bytes", "max_body_bytes",
    "tokenizer_threads", "request_timeout_s", "max_forward_s", "worker_idle_exit_s",
}  # fmt: skip
# These travel too, but whoever starts the worker chooses them for everybody.
_INCIDENTAL = {"log_level", "graceful_timeout_s"}


def worker_environment(config: Config) -> dict[str, str]:
    """Return the worker's settings as environment variables."""
    return _variables(config, _DECISIVE | _INCIDENTAL)


def worker_name(config: Config) -> str:
    """Return a short name that two gateways have in common exactly when they can share a worker."""
    identity = _variables(config, _DECISIVE)
    identity |= {"version": sie_mcp.__version__, "python": sys.prefix}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"worker-{digest[:16]}"


def _variables(config: Config, names: set[str]) -> dict[str, str]:
    values = config.model_dump(include=names)
    return {
        PREFIX + name.upper(): _text(value) for name, value in values.items() if value is not None
    }


def _text(value: Any) -> str:
    """Return a value as its variable has it; an empty list is an empty variable."""
    if isinstance(value, tuple):
        return ",".join(value)
    # The worker runs in another folder.
    return str(value.absolute() if isinstance(value, Path) else value)
