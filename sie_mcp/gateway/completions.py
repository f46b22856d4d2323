"""What may follow what a user typed: models, taxonomies, their nodes, and paths."""

import logging
from collections.abc import Sequence

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from sie_mcp.catalogue.taxonomy import BUILT_IN
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.gateway.prompts import find_arguments
from sie_mcp.gateway.resources import MODEL, NODE
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.path_completion import paths_like
from sie_mcp.tools.readers.formats import FORMATS
from sie_mcp.tools.taxonomy_files import SUFFIXES, find_taxonomy
from sie_mcp.tools.taxonomy_nodes import paths_like as nodes_like

logger = logging.getLogger(__name__)

# The protocol's own limit.
MAX_VALUES = 100
# Who types does not wait longer; a worker that starts goes on starting.
WAIT_S = 3.0
Reference = PromptReference | ResourceTemplateReference


def add_completions(server: MCPServer[ToolContext], context: ToolContext) -> None:
    """Register the completion of every argument that has known values."""

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator] # so in the SDK
    async def complete(
        ref: Reference, argument: CompletionArgument, given: CompletionContext | None
    ) -> Completion | None:
        try:
            with anyio.move_on_after(WAIT_S):
                if isinstance(ref, PromptReference):
                    # An unknown prompt is the protocol's error, not paths by an argument's name.
                    find_arguments(await server.list_prompts(), ref.name, [argument.name])
                values = await _values(context, ref, argument, given)
                return Completion(
                    values=values[:MAX_VALUES],
                    total=len(values),
                    has_more=len(values) > MAX_VALUES,
                )
        except InvalidInput:
            return None  # what is half typed is often no path or name yet
        except SieError as error:
            logger.info("nothing to complete %s with: %s", argument.name, error)
        return None


async def _values(
    context: ToolContext,
    ref: Reference,
    argument: CompletionArgument,
    given: CompletionContext | None,
) -> Sequence[str]:
    typed = argument.value
    if isinstance(ref, ResourceTemplateReference):
        others = given.arguments or {} if given else {}
        if (ref.uri, argument.name) == (MODEL, "id"):
            return await _models(context, typed)
        if (ref.uri, argument.name) == (NODE, "name"):
            return await _taxonomies(context, typed)
        if (ref.uri, argument.name) == (NODE, "node") and "name" in others:
            taxonomy = await find_taxonomy(context, others["name"])
            return await anyio.to_thread.run_sync(nodes_like, taxonomy, typed)
        return []
    if argument.name == "taxonomy":
        return await _taxonomies(context, typed)
    if argument.name == "model":
        return await _models(context, typed)
    if argument.name == "path":
        return await anyio.to_thread.run_sync(paths_like, context.folders, typed, tuple(FORMATS))
    return []


async def _models(context: ToolContext, typed: str) -> list[str]:
    listing = await context.client.models()
    start = typed.casefold()
    names = [card.name for card in listing.models]
    # Whoever does not know the organisation types the model's own name.
    return [
        name
        for name in names
        if name.casefold().startswith(start) or name.casefold().partition("/")[2].startswith(start)
    ]


async def _taxonomies(context: ToolContext, typed: str) -> list[str]:
    built_in = [name for name in BUILT_IN if name.startswith(typed.casefold())]
    if not context.folders.allowed:
        return built_in
    try:
        files = await anyio.to_thread.run_sync(paths_like, context.folders, typed, SUFFIXES)
    except InvalidInput:
        files = []
    return [*built_in, *files]
