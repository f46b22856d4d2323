"""What a client can read without a call: models, taxonomies along their trees, kept results.

Texts are compact JSON, within the limit of a tool's result.
"""

import re
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from sie_mcp.tools.context import ToolContext, owner_name
from sie_mcp.tools.kept_results import page
from sie_mcp.tools.list_models import describe_models
from sie_mcp.tools.model_cards import describe_model
from sie_mcp.tools.result import Result
from sie_mcp.tools.taxonomy_files import find_taxonomy
from sie_mcp.tools.taxonomy_nodes import describe_node

JSON = "application/json"
MODELS = "sie://models"
# {+…} takes a name with slashes in it as it is, and with %2F in their place.
MODEL = "sie://models/{+id}"
NODE = "sie://taxonomies/{name}/{+node}"
RESULT = "sie://results/{id}{?offset}"


def add_resources(server: MCPServer[ToolContext], context: ToolContext) -> None:
    """Register the resources; nothing is read before somebody asks."""
    _add_models(server, context)
    _add_taxonomies(server, context)
    _add_results(server, context)


def _add_models(server: MCPServer[ToolContext], context: ToolContext) -> None:
    @server.resource(
        MODELS,
        name="models",
        title="Models",
        description="The models that the tools can use, and which of them are the defaults.",
        mime_type=JSON,
    )
    async def models() -> str:
        return _text(await describe_models(context.client, None, context.list_tokens))

    @server.resource(
        MODEL,
        name="model",
        title="A model",
        description="What a model is for, its limits, labels, licence and state.",
        mime_type=JSON,
    )
    async def model(id: str) -> str:
        if not id.strip():
            raise ResourceNotFoundError(f"name a model; {MODELS} lists them")
        return _text(await describe_model(context.client, id, context.list_tokens))


def _add_taxonomies(server: MCPServer[ToolContext], context: ToolContext) -> None:
    @server.resource(
        NODE,
        name="taxonomy node",
        title="A node of a taxonomy",
        description="A category by its id or path (A > B), with the categories below it; without "
        "one the top categories. The taxonomy is shopify or a file.",
        mime_type=JSON,
    )
    async def node(name: str, node: str) -> str:
        taxonomy = await find_taxonomy(context, name)
        found = describe_node(taxonomy, node, context.list_tokens)
        if found is None:
            raise ResourceNotFoundError(
                f"{taxonomy.name} has no category {node!r}; give an id or a path like A > B, or "
                f"read sie://taxonomies/{name}/ for the top"
            )
        return _text(found)


def _add_results(server: MCPServer[ToolContext], context: ToolContext) -> None:
    @server.resource(
        RESULT,
        name="result",
        title="The rest of a result",
        description="What did not fit an answer that named this resource, in pages; it is kept "
        "for a while.",
        mime_type=JSON,
    )
    async def result(id: str, ctx: Context[Any], offset: str = "0") -> str:
        owner = owner_name(ctx.request_context.request)
        entries = await context.results.get(id, owner) if context.results else None
        if entries is None:
            raise ResourceNotFoundError(
                f"no result {id!r} is kept here (any more): repeat the call, or have all of its "
                "result written to a file with output_path"
            )
        if not (re.fullmatch("[0-9]{1,9}", offset) and int(offset) < len(entries)):
            raise ResourceNotFoundError(
                f"offset {offset[:40]!r} is none of 0 to {len(entries) - 1}, the entries of {id}"
            )
        return page(id, entries, int(offset), context.config.max_result_tokens)


def _text(result: Result) -> str:
    return result.model_dump_json(exclude_none=True)
