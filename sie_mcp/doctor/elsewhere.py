"""Whether workers are elsewhere, where this machine needs neither torch nor models nor a hub."""

from sie_mcp.config import Config


def place(config: Config) -> str | None:
    """Return the setting that names workers elsewhere; None: a local one is started."""
    named = (name for name in ("worker_url", "workers", "pools_file") if getattr(config, name))
    return next(named, None)
