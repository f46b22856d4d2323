"""The Router module (once Asym): queries and documents go through modules of their own.

Served where both go the same way, or where queries only look their tokens' weights up in a table
(inference-free sparse models).
"""

from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.errors import ModelLoadFailed

STATIC_QUERIES = "SparseStaticEmbedding"
_FILE = "router_config.json"
_QUERY, _DOCUMENT = "query", "document"


def is_router(modules: list[dict[str, Any]]) -> bool:
    """Whether the first module chooses the others."""
    return bool(modules) and kind_of(modules[0]) in ("Router", "Asym")


def kind_of(module: dict[str, Any]) -> str:
    """Return a module's class: the last component of its path, which changed three times."""
    return str(module.get("type", "")).rsplit(".", 1)[-1]


def expand_router(
    files: Files, modules: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the modules that documents go through, and the folder of the queries' weights.

    Raises:
        ModelLoadFailed: routes of a form that we do not serve.
    """
    own = str(modules[0].get("path", "")).strip("./")
    name = f"{own}/{_FILE}" if own else _FILE
    config = files.read(name)
    types, structure = config.get("types") or {}, config.get("structure") or {}
    routes = {route: [str(one) for one in structure.get(route) or ()] for route in structure}
    if not set(routes) >= {_QUERY, _DOCUMENT}:
        raise ModelLoadFailed(
            f"{name}: routes {sorted(routes)} are not supported; both 'query' and 'document' "
            "must be there"
        )

    def module(one: str) -> dict[str, Any]:
        return {"type": types.get(one, ""), "path": f"{own}/{one}" if own else one}

    documents = [module(one) for one in routes[_DOCUMENT]]
    queries = [module(one) for one in routes[_QUERY]]
    if [kind_of(one) for one in queries] == [STATIC_QUERIES]:
        files.decide("queries", "weights of their tokens, no forward pass", name)
        return documents + modules[1:], str(queries[0]["path"])
    if queries != documents:
        raise ModelLoadFailed(
            f"{name}: a query route of its own is not supported, unless it is one {STATIC_QUERIES}"
        )
    return documents + modules[1:], None
