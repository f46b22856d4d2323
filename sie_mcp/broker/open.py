"""The broker of a setting. Its client is an extra: nobody else imports it."""

import importlib

from sie_mcp.broker.broker import Bounds, Broker
from sie_mcp.config import Config
from sie_mcp.errors import SettingError


def open_broker(config: Config, name: str) -> Broker | None:
    """Return the broker at `queue_uri`, not connected yet; None where none is set.

    Args:
        config: The settings.
        name: By which the broker lists this process.

    Raises:
        SettingError: its client is not installed.
    """
    if config.queue_uri is None:
        return None
    try:
        found = importlib.import_module("sie_mcp.broker.nats_broker")
    except ModuleNotFoundError as error:
        raise SettingError(
            "setting SIE_MCP_QUEUE_URI needs the NATS client; run: pip install 'sie-mcp[queue]'"
        ) from error
    bounds = Bounds(
        max_messages=config.queue_max_messages,
        max_bytes=config.queue_max_bytes,
        replicas=config.queue_replicas,
        ack_wait_s=config.queue_ack_wait_s,
        job_ttl_s=config.queue_job_ttl_s,
    )
    broker: Broker = found.NatsBroker(config.queue_uri, name, bounds)
    return broker
