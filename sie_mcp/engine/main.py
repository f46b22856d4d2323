"""The worker program: settings to a running server on a Unix socket or a port.

The composition root of the engine side: the only place that sees the whole Config.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import uvicorn
from starlette.types import ASGIApp

from sie_mcp.catalogue.entries import load_catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.config import Config
from sie_mcp.engine.control import Housekeeping
from sie_mcp.engine.device import DeviceThread, Place
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.eviction import make_policy
from sie_mcp.engine.hardware import (
    budget_bytes,
    choose_devices,
    choose_dtype,
    empty_caches,
    host_budget_bytes,
    lane_name,
    size_thread_pools,
    trim_caches,
)
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.engine.loader import CheckpointLoader, Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
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
    num_threads = size_thread_pools(config.num_threads)
    devices = choose_devices(config.device)
    registry = Registry(
        load_catalogue(config.catalogue_file), config.cache_dir, FetchOptions.from_config(config)
    )
    activity = Activity()

    def make_loader(device: torch.device) -> Loader:
        dtype = choose_dtype(config.dtype, device)
        return CheckpointLoader(registry, device, dtype, config.allow_remote_code)

    app = build_app(
        config,
        devices,
        registry,
        make_loader,
        activity,
        # Nobody but the owner reaches a Unix socket.
        allows_control=uds is not None or config.allow_model_control,
    )
    logger.info("worker devices=%s threads=%d", [str(one) for one in devices], num_threads)
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
    config: Config,
    devices: Sequence[torch.device],
    registry: Registry,
    make_loader: Callable[[torch.device], Loader],
    activity: Activity,
    *,
    allows_control: bool = True,
) -> ASGIApp:
    """Join the engine's parts, one lane a device."""
    named = [
        _make_lane(config, device, lane_name(devices, number), make_loader(device), devices)
        for number, device in enumerate(devices)
    ]
    cards = registry.cards()
    lanes = Lanes(named, lambda model: (cards[model].size_bytes or 0) if model in cards else 0)
    limits = Limits(config.max_items, config.max_item_chars, config.request_timeout_s)
    engine = Engine(registry, lanes, limits, config.tokenizer_threads)
    housekeeping = Housekeeping(config.model_idle_s, config.preload, config.pinned)
    worker = WorkerApp(
        engine,
        lanes,
        max_body_bytes=config.max_body_bytes,
        activity=activity,
        allows_control=allows_control,
        housekeeping=housekeeping,
    )
    return worker.starlette()


def _make_lane(
    config: Config,
    device: torch.device,
    name: str,
    loader: Loader,
    devices: Sequence[torch.device],
) -> Lane:
    """Join one device's parts. Lanes of the same device share its memory."""
    total = budget_bytes(config.memory_budget, device) // list(devices).count(device)
    workspace = min(config.max_batch_tokens * WORKSPACE_BYTES_PER_TOKEN, total // 4)
    scheduler: Scheduler[Place] = Scheduler(
        max_batch_tokens=config.max_batch_tokens,
        max_batch_sequences=config.max_batch_sequences,
        max_queue_tokens=config.max_queue_tokens,
        max_age_s=config.max_queue_age_s,
    )
    ledger = Ledger(total, workspace, policy=make_policy(config.eviction))
    pages = HostPages(is_pinned=device.type == "cuda")
    host_bytes = host_budget_bytes(config.host_memory_budget, device) // len(devices)

    def empty() -> None:
        empty_caches(device)

    residency = Residency(
        loader,
        ledger,
        Swaps(device, HostLedger(host_bytes, pages.page_bytes), pages, empty_caches=empty),
        empty_caches=empty,
        trim=lambda limit_bytes: trim_caches(device, limit_bytes),
        device_name=name,
    )
    thread = DeviceThread(
        device,
        scheduler,
        residency.evict_idle,
        retries_nonfinite=retries_nonfinite(config, device),
    )
    return Lane(name, ledger, residency, thread)


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
