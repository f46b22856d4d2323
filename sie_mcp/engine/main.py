"""The worker program: settings to a running server on a Unix socket or a port.

The composition root of the engine side: the only place that sees the whole Config.
"""

import logging

import torch

from sie_mcp.catalogue.entries import load_catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.hardware import (
    budget_bytes,
    choose_device,
    choose_dtype,
    empty_caches,
    host_budget_bytes,
    max_forward_s,
    trim_caches,
)
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.idle_proof import IdleProof
from sie_mcp.engine.jobs import Place
from sie_mcp.engine.loader import CheckpointLoader, Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.engine.serving import Worker, serve
from sie_mcp.engine.shape_caches import bound_shape_caches
from sie_mcp.engine.swaps import Swaps
from sie_mcp.engine.watchdog import Watchdog
from sie_mcp.setting_types import weights_of

logger = logging.getLogger(__name__)

# Hidden states of a batch: the widest encoder we serve has about 4,096 numbers a token in its MLP,
# and a few such buffers live at once.
WORKSPACE_BYTES_PER_TOKEN = 4096 * 4 * 4


def run_worker(
    config: Config, *, uds: str | None = None, host: str = "127.0.0.1", port: int | None = None
) -> None:
    """Serve until SIGTERM, or until idle for `worker_idle_exit_s` on a Unix socket.

    Raises:
        SettingError: a setting that this machine cannot honour; nothing was started.
        SystemExit: the device was lost.
    """
    bound_shape_caches()
    if config.num_threads is not None:
        torch.set_num_threads(config.num_threads)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device)
    registry = Registry(
        load_catalogue(config.catalogue_file), config.cache_dir, FetchOptions.from_config(config)
    )
    loader = CheckpointLoader(registry, device, dtype, config.allow_remote_code)
    worker = build_worker(config, device, registry, loader)
    logger.info("worker device=%s dtype=%s", device, dtype)
    serve(worker, config, uds=uds, host=host, port=port)


def build_worker(
    config: Config, device: torch.device, registry: Registry, loader: Loader
) -> Worker:
    """Join the engine's parts."""
    total = budget_bytes(config.memory_budget, device)
    workspace = min(config.max_batch_tokens * WORKSPACE_BYTES_PER_TOKEN, total // 4)
    pages = HostPages(is_pinned=device.type == "cuda")
    host = HostLedger(host_budget_bytes(config.host_memory_budget, device), pages.page_bytes)

    def empty() -> None:
        empty_caches(device)

    def after_eviction(limit_bytes: int) -> None:
        trim_caches(device, limit_bytes)
        thread.memory_came_free()

    residency = Residency(
        loader,
        Ledger(total, workspace),
        Swaps(device, host, pages, empty_caches=empty),
        empty_caches=empty,
        after_eviction=after_eviction,
    )
    scheduler: Scheduler[Place] = Scheduler(
        max_batch_tokens=config.max_batch_tokens,
        max_batch_sequences=config.max_batch_sequences,
        max_queue_tokens=config.max_queue_tokens,
        max_age_s=config.max_queue_age_s,
        max_queue_sequences=config.max_queue_sequences,
        max_client_share=config.max_client_share,
        weights=_weights(config, registry),
    )
    thread = DeviceThread(
        device,
        scheduler,
        residency.evict_idle,
        retries_nonfinite=retries_nonfinite(config, device),
    )
    limits = Limits(config.max_items, config.max_item_chars, config.request_timeout_s)
    engine = Engine(registry, residency, thread, limits, config.tokenizer_threads)
    activity = Activity()
    app = WorkerApp(engine, thread, max_body_bytes=config.max_body_bytes, activity=activity)
    return Worker(
        app=app.starlette(),
        device=thread,
        activity=activity,
        watchdog=Watchdog(thread, max_forward_s=max_forward_s(config.max_forward_s, device)),
        proof=IdleProof(residency, thread),
    )


def retries_nonfinite(config: Config, device: torch.device) -> bool:
    """Whether what is not finite runs again: only where float32 is wider than the weights."""
    return config.retry_nonfinite and choose_dtype(config.dtype, device) != torch.float32


def _weights(config: Config, registry: Registry) -> dict[str, float]:
    """Return the models' weights by the names that they are kept under."""
    given = weights_of(config.model_weights)
    return {registry.resolve(name, "encode"): weight for name, weight in given.items()}
