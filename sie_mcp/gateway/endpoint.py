"""Which worker the tools talk to: one of several, the one at `worker_url`, or the local one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sie_mcp.broker.open import open_broker
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Connections, Endpoint, FixedEndpoint
from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.kubernetes_api import ApiServer
from sie_mcp.gateway.pool.plan import Plan, plan_of, read_plan
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.queued.endpoint import QueueEndpoint
from sie_mcp.gateway.supervisor import LocalWorker
from sie_mcp.gateway.vectors.cache import VectorCache

_PLACES = ("worker_url", "workers", "pools_file")


def choose_endpoint(config: Config) -> Endpoint:
    """Return where workers are. Nothing is started before the first call.

    Raises:
        SettingError: more than one of worker_url, workers and pools_file, or one that is wrong;
            a queue for none of them, or without its client.
    """
    named = [name for name in _PLACES if getattr(config, name)]
    if len(named) > 1:
        raise SettingError(f"{' and '.join(named)} are set; give one of them")
    if config.queue_uri is not None and not (config.workers or config.pools_file):
        raise SettingError("queue_uri is set: name its workers by workers or pools_file")
    if config.worker_url is not None:
        return FixedEndpoint(config.worker_url)
    if config.pools_file is not None:
        return _pools(read_plan(config.pools_file), config)
    if config.workers:
        return _pools(plan_of(list(config.workers), config.worker_slots), config)
    return LocalWorker(config)


@asynccontextmanager
async def kept_up(endpoint: Endpoint) -> AsyncIterator[None]:
    """Keep up with workers that come and go, where there are several."""
    if not isinstance(endpoint, Pools | QueueEndpoint):
        yield
        return
    async with endpoint.running():
        yield


def _pools(plan: Plan, config: Config) -> Endpoint:
    connections = Connections(timeout_s=config.request_timeout_s, key=read_worker_key(config))
    direct = Pools(
        plan,
        connections,
        max_waiting=config.max_pool_waiting,
        hold_s=config.pool_hold_s,
        gateways=config.gateways,
        api=ApiServer(config.kubernetes_url, config.kubernetes_credentials_dir),
    )
    broker = open_broker(config, "sie-mcp gateway")
    if broker is None:
        return direct
    return QueueEndpoint(
        direct, plan, broker, connections, which=config.queue_for, gateways=config.gateways
    )


def make_client(
    endpoint: Endpoint,
    config: Config,
    *,
    allows_local_models: bool = True,
    vectors: VectorCache | None = None,
) -> EngineClient:
    """Return the tools' client; who opened `vectors` closes them."""
    return EngineClient(
        endpoint,
        load_wait_s=config.load_wait_s,
        timeout_s=config.request_timeout_s,
        allows_local_models=allows_local_models,
        worker_key=read_worker_key(config),
        vectors=vectors,
    )


def read_worker_key(config: Config) -> str | None:
    """Return the key that the worker at `worker_url` wants.

    Raises:
        SettingError: its file cannot be read, or holds none.
    """
    if config.worker_key_file is None:
        return None
    try:
        key = config.worker_key_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"worker_key_file: {error}") from error
    if not key or not key.isascii() or not key.isprintable():
        raise SettingError(f"worker_key_file: {config.worker_key_file} holds no key")
    return key
