"""The worker program: settings to a running server on a Unix socket or a port.

The composition root of the engine side: the only place that sees the whole Config.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from sie_mcp.adapters.graphs import LIMIT_BYTES as GRAPH_BYTES
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import Config
from sie_mcp.engine.batch_sizes import BatchSizes, bounds
from sie_mcp.engine.calibration import Calibration
from sie_mcp.engine.control import Housekeeping
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.doors import num_doors
from sie_mcp.engine.effective import batch_tokens_of, effective_settings
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.eviction import make_policy
from sie_mcp.engine.hardware import (
    budget_bytes,
    choose_cpu_backend,
    choose_devices,
    choose_dtype,
    device_label,
    empty_caches,
    host_budget_bytes,
    lane_name,
    max_forward_s,
    share_interpreter,
    size_thread_pools,
    trim_caches,
)
from sie_mcp.engine.heap import keep_freed
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.idle_proof import IdleProof
from sie_mcp.engine.jobs import Part
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.engine.loader import CheckpointLoader, Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.pulling.joined import make_pulling, with_pull_route
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.request_checks import Limits
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.engine.serving import Worker, serve
from sie_mcp.engine.shape_caches import bound_shape_caches
from sie_mcp.engine.swaps import Swaps
from sie_mcp.engine.watchdog import Watchdog
from sie_mcp.setting_types import defaults_of, weights_of

if TYPE_CHECKING:
    from sie_mcp.access.gate import Access

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
        SystemExit: a device was lost.
    """
    doors = num_doors(config) if uds is None else 0
    bound_shape_caches()
    share_interpreter()
    num_threads = size_thread_pools(config.num_threads)
    devices = choose_devices(config.device)
    if any(device.type == "cpu" for device in devices):
        keep_freed(num_threads)
    catalogue = with_defaults(load_catalogue(config.catalogue_file), config.default_models)
    backend = choose_cpu_backend(config.cpu_backend)
    registry = Registry(catalogue, config.cache_dir, FetchOptions.from_config(config))

    def make_loader(device: torch.device) -> Loader:
        dtype = choose_dtype(config.dtype, device)
        own_backend = backend if device.type == "cpu" else "torch"
        return CheckpointLoader(
            registry, device, dtype, config.allow_remote_code, config.gpu_paths, own_backend
        )

    # Nobody but the owner reaches a Unix socket.
    allows_control = uds is not None or config.allow_model_control
    allows_local_models = uds is not None or config.allow_local_models
    worker = build_worker(
        config,
        devices,
        registry,
        make_loader,
        allows_control=allows_control,
        allows_local_models=allows_local_models,
        access=None if uds is not None else _remote().make_access(config),
        has_doors=doors > 0,
    )
    if uds is None and host not in _remote().LOOPBACK and config.auth == "none":
        logger.warning(
            "host=%s is open to others and auth=none: whoever reaches this port can use the "
            "models; set SIE_MCP_AUTH=api-key, or let only gateways through to it",
            host,
        )
    logger.info(
        "worker devices=%s threads=%d doors=%d", [str(one) for one in devices], num_threads, doors
    )
    serve(worker, config, uds=uds, host=host, port=port, num_doors=doors)


def build_worker(
    config: Config,
    devices: Sequence[torch.device],
    registry: Registry,
    make_loader: Callable[[torch.device], Loader],
    *,
    allows_control: bool = True,
    allows_local_models: bool = True,
    access: "Access | None" = None,
    has_doors: bool = False,
) -> Worker:
    """Join a worker's parts; doors, where it has them, ask who calls."""
    engine, lanes = build_engine(
        config, devices, registry, make_loader, allows_local_models=allows_local_models
    )
    named = lanes.all
    activity = Activity()
    app = WorkerApp(
        engine,
        lanes,
        max_body_bytes=config.max_body_bytes,
        activity=activity,
        allows_control=allows_control,
        housekeeping=Housekeeping(config.model_idle_s, config.preload, config.pinned),
        has_doors=has_doors,
    )
    threads = tuple(lane.thread for lane in named)
    routes = app.starlette()
    pulling = make_pulling(config, routes, activity)
    whole = with_pull_route(routes, pulling)
    return Worker(
        app=whole if access is None or has_doors else _remote().behind_gate(whole, access),
        pulling=pulling,
        devices=threads,
        activity=activity,
        watchdog=Watchdog(threads, max_forward_s=max_forward_s(config.max_forward_s, devices)),
        proofs=tuple(IdleProof(lane.residency, lane.thread) for lane in named),
        calibrations=_calibrations(named),
    )


def _calibrations(lanes: Sequence[Lane]) -> tuple[Calibration, ...]:
    """Return what measures where the size of batches is not set."""
    turn = asyncio.Lock()
    return tuple(
        Calibration(lane, lane.thread.batch_sizes, turn)
        for lane in lanes
        if lane.thread.batch_sizes is not None
    )


def build_engine(
    config: Config,
    devices: Sequence[torch.device],
    registry: Registry,
    make_loader: Callable[[torch.device], Loader],
    *,
    allows_local_models: bool = True,
) -> tuple[Engine, Lanes]:
    """Join the engine's parts, one lane a device; who uses it starts the lanes' threads."""
    weights = _weights(config, registry)
    named = [
        _make_lane(config, devices, number, make_loader(device), weights)
        for number, device in enumerate(devices)
    ]
    cards = registry.cards()
    lanes = Lanes(named, lambda model: (cards[model].size_bytes or 0) if model in cards else 0)
    limits = Limits(
        config.max_items,
        config.max_item_chars,
        config.request_timeout_s,
        allows_local_models,
        config.max_image_bytes,
        config.max_request_tokens,
    )
    settings = effective_settings(config, devices, named)
    return Engine(registry, lanes, limits, config.tokenizer_threads, settings), lanes


def _remote() -> ModuleType:
    """Import what tells callers apart; a worker on a Unix socket has one, who waits for it."""
    return importlib.import_module("sie_mcp.access.remote")


def with_defaults(catalogue: Catalogue, parts: tuple[str, ...]) -> Catalogue:
    """Return the catalogue with other defaults, as `default_models` says."""
    others = {kind: (model,) for kind, model in defaults_of(parts).items()}
    return catalogue.model_copy(update={"defaults": {**catalogue.defaults, **others}})


def _make_lane(
    config: Config,
    devices: Sequence[torch.device],
    number: int,
    loader: Loader,
    weights: dict[str, float],
) -> Lane:
    """Join one device's parts. Lanes of the same device share its memory."""
    device, name = devices[number], lane_name(devices, number)
    total = budget_bytes(config.memory_budget, device) // list(devices).count(device)
    batch_tokens = batch_tokens_of(
        config.max_batch_tokens, device, total, WORKSPACE_BYTES_PER_TOKEN
    )
    has_graphs = device.type == "cuda" and "graphs" in config.gpu_paths

    def workspace(tokens: int) -> int:
        graphs = min(GRAPH_BYTES, total // 16) if has_graphs else 0
        return min(tokens * WORKSPACE_BYTES_PER_TOKEN, total // 4) + graphs

    scheduler: Scheduler[Part] = Scheduler(
        max_batch_tokens=batch_tokens,
        max_batch_sequences=config.max_batch_sequences,
        max_queue_tokens=config.max_queue_tokens,
        max_age_s=config.max_queue_age_s,
        max_queue_sequences=config.max_queue_sequences,
        max_client_share=config.max_client_share,
        weights=weights,
    )

    def has_work(model: str) -> bool:
        return thread.waiting_tokens(model) > 0

    def empty() -> None:
        empty_caches(device)

    def after_eviction(limit_bytes: int) -> None:
        trim_caches(device, limit_bytes)
        thread.memory_came_free()

    def reserve(tokens: int) -> None:
        ledger.reserved_bytes = max(ledger.reserved_bytes, workspace(tokens))

    ledger = Ledger(
        total, workspace(batch_tokens), policy=make_policy(config.eviction), has_work=has_work
    )
    pages = HostPages(is_pinned=device.type == "cuda")
    host_bytes = host_budget_bytes(config.host_memory_budget, device) // len(devices)
    residency = Residency(
        loader,
        ledger,
        Swaps(device, HostLedger(host_bytes, pages.page_bytes), pages, empty_caches=empty),
        empty_caches=empty,
        after_eviction=after_eviction,
        device_name=name,
    )
    batch_sizes = None
    # Who sets a number means it.
    if config.max_batch_tokens is None:
        label = device_label(device, config.dtype, config.gpu_paths, config.cpu_backend)
        limits = bounds(device, batch_tokens, total, WORKSPACE_BYTES_PER_TOKEN)
        batch_sizes = BatchSizes(config.cache_dir, label, limits, reserve)
    thread = DeviceThread(
        device,
        scheduler,
        residency.evict_idle,
        retries_nonfinite=retries_nonfinite(config, device),
        name=name,
        batch_sizes=batch_sizes,
    )
    return Lane(name, ledger, residency, thread)


def retries_nonfinite(config: Config, device: torch.device) -> bool:
    """Whether what is not finite runs again: only where float32 is wider than the weights."""
    return config.retry_nonfinite and choose_dtype(config.dtype, device) != torch.float32


def _weights(config: Config, registry: Registry) -> dict[str, float]:
    """Return the models' weights by the names that they are kept under."""
    given = weights_of(config.model_weights)
    return {registry.resolve(name, "encode"): weight for name, weight in given.items()}
