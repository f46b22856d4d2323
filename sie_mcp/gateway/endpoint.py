"""Which worker the tools talk to: the one at `worker_url`, else the user's shared local one."""

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Endpoint, FixedEndpoint
from sie_mcp.errors import SettingError
from sie_mcp.gateway.supervisor import LocalWorker


def choose_endpoint(config: Config) -> Endpoint:
    """Return where the worker is. Nothing is started before the first call."""
    if config.worker_url is not None:
        return FixedEndpoint(config.worker_url)
    return LocalWorker(config)


def make_client(
    endpoint: Endpoint, config: Config, *, allows_local_models: bool = True
) -> EngineClient:
    """Return the tools' client."""
    return EngineClient(
        endpoint,
        load_wait_s=config.load_wait_s,
        timeout_s=config.request_timeout_s,
        allows_local_models=allows_local_models,
        worker_key=read_worker_key(config),
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
