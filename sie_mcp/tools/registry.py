"""The tools in the order agents see them: what is used most comes first."""

from mcp.server.mcpserver.tools import Tool

from sie_mcp.tools.classify_taxonomy import classify_taxonomy
from sie_mcp.tools.embed import embed
from sie_mcp.tools.extract_entities import extract_entities
from sie_mcp.tools.filter_context import filter_context
from sie_mcp.tools.list_models import list_models
from sie_mcp.tools.rerank import rerank
from sie_mcp.tools.schema import make_tool
from sie_mcp.tools.search_files import search_files


def build_tools() -> list[Tool]:
    """Describe every tool; the same list in the same order each time."""
    return [
        make_tool(rerank, title="Rerank passages", read_only=False, always_load=True),
        make_tool(filter_context, title="Keep what matters"),
        make_tool(search_files, title="Search files"),
        make_tool(
            classify_taxonomy, title="Classify into a taxonomy", read_only=False, always_load=True
        ),
        make_tool(extract_entities, title="Extract entities", read_only=False),
        make_tool(embed, title="Embed and compare texts", read_only=False),
        make_tool(list_models, title="List models"),
    ]
