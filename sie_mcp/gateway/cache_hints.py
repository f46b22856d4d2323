"""For how long clients may keep what they listed and read, and whether for others too."""

from typing import Any

from mcp.server import CacheHint, ServerRequestContext
from mcp.server.caching import CacheableMethod
from mcp.server.context import CallNext, HandlerResult

from sie_mcp.gateway.resources import MODELS
from sie_mcp.tools.kept_results import PREFIX

# No list changes while the process lives.
LIST = CacheHint(ttl_ms=300_000, scope="public")
LISTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": LIST,
    "prompts/list": LIST,
    "resources/list": LIST,
    "resources/templates/list": LIST,
    "server/discover": LIST,
    # Filled in by the URI, below; without a hint nothing is kept.
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}
# What a URI begins with, and for how long what is there stays as it is.
READS = (
    # Its owner's alone, and nothing is ever changed in it.
    (PREFIX, CacheHint(ttl_ms=60_000, scope="private")),
    # Built in, the same for everybody until the next release.
    ("sie://taxonomies/shopify/", CacheHint(ttl_ms=3_600_000, scope="public")),
    # A file of the server's folders, which somebody can edit.
    ("sie://taxonomies/", CacheHint(ttl_ms=5_000, scope="private")),
    # Models are loaded and leave all the time, and not every caller may use all of them.
    (MODELS, CacheHint(ttl_ms=5_000, scope="private")),
)


async def hint_reads(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Say for how long what was read stays as it is; a middleware."""
    result = await call_next(ctx)
    if ctx.method != "resources/read" or not isinstance(result, dict) or "ttlMs" not in result:
        return result
    uri = str((ctx.params or {}).get("uri", ""))
    hint = next((hint for start, hint in READS if uri.startswith(start)), None)
    if hint is None:
        return result
    return {**result, "ttlMs": hint.ttl_ms, "cacheScope": hint.scope}
