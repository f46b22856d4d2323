"""The likeliest categories in the order of a model that reads text and category together."""

from collections.abc import Mapping, Sequence

import anyio

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import SEPARATOR
from sie_mcp.chunks import first_error
from sie_mcp.client import EngineClient, Progress

NUM_CANDIDATES = 20
# Requests of one text each that are under way together, so that batches are full.
SIDE_BY_SIDE = 8


async def reordered(
    client: EngineClient,
    model: str,
    texts: Mapping[int, str],
    candidates: Mapping[int, Sequence[int]],
    paths: Sequence[tuple[str, ...]],
    progress: Progress,
) -> dict[int, list[int]]:
    """Order each text's candidates, nodes, by how well their paths answer to it.

    Raises:
        SieError: what the worker answered.
    """
    limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)
    found: dict[int, list[int]] = {}

    async def reorder(place: int) -> None:
        nodes = candidates[place]
        items = [wire.Item(text=SEPARATOR.join(paths[node])) for node in nodes]
        async with limiter:
            answer = await client.score(model, wire.Item(text=texts[place]), items)
        found[place] = [nodes[score.index] for score in answer.scores]
        await progress(len(found), len(candidates), "reranking categories")

    try:
        async with anyio.create_task_group() as group:
            for place in candidates:
                group.start_soon(reorder, place)
    except BaseExceptionGroup as group_error:
        raise first_error(group_error) from group_error
    return found
