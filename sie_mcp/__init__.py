"""Small models as tools for agents: one MCP server and the engine behind it."""

__version__ = "0.1.0"

__all__ = ["__version__"]
