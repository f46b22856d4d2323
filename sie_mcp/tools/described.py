"""Tools are described once in a process: schemas take a sixth of a second, and never change."""

import copy
from collections.abc import Callable
from functools import cache, wraps

from mcp.server.mcpserver.tools import Tool


def described_once(describe: Callable[[], list[Tool]]) -> Callable[[], list[Tool]]:
    """Call a function once; give every caller tools whose schemas it may change."""
    described = cache(describe)

    @wraps(describe)
    def own() -> list[Tool]:
        return [
            tool.model_copy(update={"parameters": copy.deepcopy(tool.parameters)})
            for tool in described()
        ]

    return own
