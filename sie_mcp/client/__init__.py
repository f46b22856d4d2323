"""The way to an engine: `Client` and `AsyncClient` for programs, `EngineClient` for the gateway."""

from sie_mcp.client.asynchronous import AsyncClient
from sie_mcp.client.blocking import Client
from sie_mcp.client.engine import EngineClient
from sie_mcp.client.options import Options
from sie_mcp.finding import Progress

__all__ = ["AsyncClient", "Client", "EngineClient", "Options", "Progress"]
