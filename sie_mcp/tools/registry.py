"""The tools in the order agents see them: what is used most comes first."""

import difflib
from collections.abc import Sequence
from functools import cache

from mcp.server.mcpserver.tools import Tool

from sie_mcp.errors import SettingError
from sie_mcp.tools.classify import classify
from sie_mcp.tools.classify_images import classify_images
from sie_mcp.tools.classify_taxonomy import classify_taxonomy
from sie_mcp.tools.cluster import cluster
from sie_mcp.tools.deduplicate import deduplicate
from sie_mcp.tools.describe_image import describe_image
from sie_mcp.tools.described import described_once
from sie_mcp.tools.detect_objects import detect_objects
from sie_mcp.tools.detect_pii import detect_pii
from sie_mcp.tools.embed import embed
from sie_mcp.tools.explain import explain
from sie_mcp.tools.extract_entities import extract_entities
from sie_mcp.tools.extract_relations import extract_relations
from sie_mcp.tools.extract_structured import extract_structured
from sie_mcp.tools.filter_context import filter_context
from sie_mcp.tools.find_similar import find_similar
from sie_mcp.tools.list_models import list_models
from sie_mcp.tools.map_taxonomy import map_taxonomy
from sie_mcp.tools.redact import redact
from sie_mcp.tools.rerank import rerank
from sie_mcp.tools.review_uncertain import review_uncertain
from sie_mcp.tools.schema import make_tool
from sie_mcp.tools.search_files import search_files
from sie_mcp.tools.search_images import search_images
from sie_mcp.tools.store_corrections import store_corrections

ALL = "all"
# Names for several tools; a client pays for every tool it is shown, used or not.
TOOLSETS = {
    "core": ("rerank", "filter_context"),
    "standard": (
        "rerank",
        "filter_context",
        "search_files",
        "classify_taxonomy",
        "extract_entities",
        "embed",
        "list_models",
    ),
    "search": ("search_files", "find_similar"),
    "similar": ("find_similar", "deduplicate", "cluster"),
    "taxonomy": (
        "classify_taxonomy",
        "review_uncertain",
        "store_corrections",
        "explain",
        "map_taxonomy",
    ),
    "extract": (
        "classify",
        "extract_entities",
        "extract_relations",
        "extract_structured",
        "detect_pii",
        "redact",
    ),
    "images": ("search_images", "classify_images", "detect_objects", "describe_image"),
}


@described_once
def build_tools() -> list[Tool]:
    """Describe every tool; the same list in the same order each time, the caller's own."""
    return [
        make_tool(rerank, title="Rerank passages", read_only=False, always_load=True),
        make_tool(filter_context, title="Keep what matters"),
        make_tool(search_files, title="Search files"),
        make_tool(
            classify_taxonomy, title="Classify into a taxonomy", read_only=False, always_load=True
        ),
        make_tool(review_uncertain, title="Review unsure categories"),
        make_tool(store_corrections, title="Keep corrections", read_only=False),
        make_tool(explain, title="Explain a category"),
        make_tool(map_taxonomy, title="Map a taxonomy to another", read_only=False),
        make_tool(classify, title="Classify by your own labels", read_only=False),
        make_tool(extract_entities, title="Extract entities", read_only=False),
        make_tool(extract_relations, title="Extract relations", read_only=False),
        make_tool(extract_structured, title="Extract records", read_only=False),
        make_tool(detect_pii, title="Detect personal data", read_only=False),
        make_tool(redact, title="Redact personal data", read_only=False),
        make_tool(embed, title="Embed and compare texts", read_only=False),
        make_tool(find_similar, title="Find what is similar"),
        make_tool(deduplicate, title="Find duplicates", read_only=False),
        make_tool(cluster, title="Cluster texts", read_only=False),
        make_tool(list_models, title="List models"),
        make_tool(search_images, title="Search pictures"),
        make_tool(classify_images, title="Classify pictures", read_only=False),
        make_tool(detect_objects, title="Find things in pictures", read_only=False),
        make_tool(describe_image, title="Describe pictures", read_only=False),
    ]


def choose_tools(names: Sequence[str]) -> list[Tool]:
    """Describe the tools of these names and toolsets, in the one order, whatever theirs.

    Raises:
        SettingError: no such tool or toolset, or none named.
    """
    tools = build_tools()
    wanted = _named(names, [tool.name for tool in tools])
    if not wanted:
        known = _namable([tool.name for tool in tools])
        raise SettingError(f"tools is empty; name some of: {', '.join(known)}")
    return [tool for tool in tools if tool.name in wanted]


def tool_names(names: Sequence[str]) -> list[str]:
    """Return the names of the tools that names and toolsets stand for, in the one order.

    Raises:
        SettingError: no such tool or toolset.
    """
    wanted = _named(names, _built_names())
    return [name for name in _built_names() if name in wanted]


@cache
def _built_names() -> tuple[str, ...]:
    return tuple(tool.name for tool in build_tools())


def _named(names: Sequence[str], tools: Sequence[str]) -> set[str]:
    known = _namable(tools)
    wanted: set[str] = set()
    for name in names:
        if name not in known:
            raise SettingError(_unknown(name, known))
        wanted.update(tools if name == ALL else TOOLSETS.get(name, (name,)))
    return wanted


def _namable(tools: Sequence[str]) -> list[str]:
    return [ALL, *TOOLSETS, *tools]


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
    return f"tools: there is no tool or toolset {name!r}; {hint}"
