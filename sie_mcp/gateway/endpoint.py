"""Which worker the tools talk to: the one at `worker_url`, else the user's shared local one."""

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Endpoint, FixedEndpoint
from sie_mcp.gateway.supervisor import LocalWorker


def choose_endpoint(config: Config) -> Endpoint:
    """Return where the worker is. Nothing is started before the first call."""
    if config.worker_url is not None:
        return FixedEndpoint(config.worker_url)
    return LocalWorker(config)


def make_client(endpoint: Endpoint, config: Config) -> EngineClient:
    """Return the tools' client."""
    return EngineClient(
        endpoint, load_wait_s=config.load_wait_s, timeout_s=config.request_timeout_s
    )
