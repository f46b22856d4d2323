"""The tools in the order agents see them."""

from mcp.server.mcpserver.tools import Tool

from sie_mcp.tools.classify_taxonomy import classify_taxonomy
from sie_mcp.tools.embed import embed
from sie_mcp.tools.extract_entities import extract_entities
from sie_mcp.tools.filter_context import filter_context
from sie_mcp.tools.list_models import list_models
from sie_mcp.tools.rerank import rerank
from sie_mcp.tools.schema import make_tool


def build_tools() -> list[Tool]:
    """Build every tool, always in the same order: it keeps clients' prompt caches warm."""
    return [
        make_tool(rerank, "Rerank passages", always_loaded=True),
        make_tool(filter_context, "Keep what matters"),
        make_tool(
            classify_taxonomy, "Classify into a taxonomy", writes_files=True, always_loaded=True
        ),
        make_tool(extract_entities, "Extract entities"),
        make_tool(embed, "Embed and compare", writes_files=True),
        make_tool(list_models, "List models"),
    ]
