"""The way to an engine: `Client` and `AsyncClient` for programs, `EngineClient` for the gateway."""

from sie_mcp.client.engine import EngineClient
from sie_mcp.finding import Progress

__all__ = ["EngineClient", "Progress"]
