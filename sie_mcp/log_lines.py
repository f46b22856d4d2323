"""How programs write their log: lines on standard error, with the request that each is about."""

import logging
import sys

from sie_mcp import request_ids

# What says more than anyone asked for.
_QUIET = ("httpx2", "httpcore2", "mcp", "uvicorn.access")


def start_log(level: str) -> None:
    """Write from now on what is of this level, or above."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s%(request)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(request_ids.note)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
