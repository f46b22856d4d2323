"""The worker program: settings to a running server on a Unix socket or a port.

The composition root of the engine side: the only place that sees the whole Config.
"""

import asyncio
import logging
import os
from pathlib import Path

import torch
import uvicorn
from starlette.types import ASGIApp

from sie_mcp.catalogue.entries import load_catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.device import DeviceThread, Place
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.hardware import (
    budget_bytes,
    choose_device,
    choose_dtype,
    empty_caches,
    host_budget_bytes,
    trim_caches,
)
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.loader import CheckpointLoader, Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.engine.shape_caches import bound_shape_caches
from sie_mcp.engine.swaps import Swaps

logger = logging.getLogger(__name__)

# Hidden states of a batch: the widest encoder we serve has about 4,096 numbers a token in its MLP,
# and a few such buffers live at once.
WORKSPACE_BYTES_PER_TOKEN = 4096 * 4 * 4
IDLE_CHECK_S = 1.0


def run_worker(
    config: Config, *, uds: str | None = None, host: str = "127.0.0.1", port: int | None = None
) -> None:
    """Serve until SIGTERM, or until idle for `worker_idle_exit_s` on a Unix socket.

    Raises:
        SettingError: a setting that this machine cannot honour; nothing was started.
    """
    bound_shape_caches()
    if config.num_threads is not None:
        torch.set_num_threads(config.num_threads)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device)
    registry = Registry(
        load_catalogue(config.catalogue_file), config.cache_dir, FetchOptions.from_config(config)
    )
    activity = Activity()
    loader = CheckpointLoader(registry, device, dtype, config.allow_remote_code)
    app = build_app(config, device, registry, loader, activity)
    logger.info("worker device=%s dtype=%s", device, dtype)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            uds=uds,
            host=host,
            port=port or 0,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=config.graceful_timeout_s,
            # An idle keep-alive connection costs nothing and spares a new one.
            timeout_keep_alive=75,
        )
    )
    idle_exit_s = config.worker_idle_exit_s if uds is not None else 0.0
    asyncio.run(_serve(server, activity, uds, idle_exit_s))


def build_app(
    config: Config, device: torch.device, registry: Registry, loader: Loader, activity: Activity
) -> ASGIApp:
    """Join the engine's parts."""
    total = budget_bytes(config.memory_budget, device)
    workspace = min(config.max_batch_tokens * WORKSPACE_BYTES_PER_TOKEN, total // 4)
    pages = HostPages(is_pinned=device.type == "cuda")
    host = HostLedger(host_budget_bytes(config.host_memory_budget, device), pages.page_bytes)

    def empty() -> None:
        empty_caches(device)

    residency = Residency(
        loader,
        Ledger(total, workspace),
        Swaps(device, host, pages, empty_caches=empty),
        empty_caches=empty,
        trim=lambda limit_bytes: trim_caches(device, limit_bytes),
    )
    scheduler: Scheduler[Place] = Scheduler(
        max_batch_tokens=config.max_batch_tokens,
        max_batch_sequences=config.max_batch_sequences,
        max_queue_tokens=config.max_queue_tokens,
        max_age_s=config.max_queue_age_s,
    )
    thread = DeviceThread(
        device,
        scheduler,
        residency.evict_idle,
        retries_nonfinite=retries_nonfinite(config, device),
    )
    limits = Limits(config.max_items, config.max_item_chars, config.request_timeout_s)
    engine = Engine(registry, residency, thread, limits, config.tokenizer_threads)
    worker = WorkerApp(engine, thread, max_body_bytes=config.max_body_bytes, activity=activity)
    return worker.starlette()


def retries_nonfinite(config: Config, device: torch.device) -> bool:
    """Whether what is not finite runs again: only where float32 is wider than the weights."""
    return config.retry_nonfinite and choose_dtype(config.dtype, device) != torch.float32


async def _serve(
    server: uvicorn.Server, activity: Activity, uds: str | None, idle_exit_s: float
) -> None:
    """Serve; leave when idle too long. The socket is the owner's alone."""
    # uvicorn makes the socket file with the process's mask.
    previous = os.umask(0o177) if uds is not None else None
    try:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.wait({serving}, timeout=0.02)
    finally:
        if previous is not None:
            os.umask(previous)
    while not serving.done():
        await asyncio.wait({serving}, timeout=IDLE_CHECK_S)
        if idle_exit_s and activity.idle_s() > idle_exit_s and not server.should_exit:
            logger.info("leaving after idle_s=%.0f", activity.idle_s())
            server.should_exit = True
        activity.is_draining = server.should_exit
    await serving
    if uds is not None:
        Path(uds).unlink(missing_ok=True)
