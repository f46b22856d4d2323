"""Pictures of pages beside a question, by models that compare them token by token: no index."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput, ModelNotFound
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.image_files import item_of, parts_of, read_image
from sie_mcp.tools.index.found import File
from sie_mcp.tools.inputs import check_query
from sie_mcp.tools.vectors import PROBE

# Every call reads them all.
MAX_PAGES = 200


@dataclass(slots=True)
class PageScores:
    """Paths and scores, best first; and why others have none."""

    model: str
    best: list[tuple[str, float]] = field(default_factory=list)
    problems: dict[str, wire.ItemError] = field(default_factory=dict)


async def compares_pages(client: EngineClient, model: str, progress: Progress) -> bool:
    """Whether a model has vectors of tokens alone, of texts and of images."""
    card = None
    with contextlib.suppress(ModelNotFound):  # A hub id or folder that nobody has used yet.
        card = await client.model(model)
    if card is None or not card.outputs:
        with contextlib.suppress(InvalidInput):
            await client.encode(model, [wire.Item(text=PROBE)], progress=progress)
        card = await client.model(model)
    return "image" in card.inputs and "multivector" in card.outputs and "dense" not in card.outputs


async def score_pages(
    context: ToolContext, model: str, query: str, files: Sequence[File]
) -> PageScores:
    """Score pictures by a question, part by part.

    Raises:
        InvalidInput: no question, more pictures than `MAX_PAGES`, or none that can be read.
    """
    if not query:
        raise InvalidInput(f"{model} compares words with pages; give query, not like")
    check_query(query)
    if len(files) > MAX_PAGES:
        raise InvalidInput(
            f"paths: {len(files):,} pictures; {model} reads them anew each time, at most "
            f"{MAX_PAGES}: name fewer"
        )
    found = PageScores(model)
    num_done = 0
    for part in parts_of(files):
        await context.progress(num_done, len(files), f"reading pages with {model}")
        await _score_part(context, query, part, found)
        num_done += len(part)
    raise_if_all_failed(dict(enumerate(found.problems.values())), len(files))
    found.best.sort(key=lambda one: -one[1])
    return found


async def _score_part(
    context: ToolContext, query: str, part: Sequence[File], found: PageScores
) -> None:
    read = {}
    for file in part:
        try:
            data = await anyio.to_thread.run_sync(read_image, file.path, context.config)
            read[file.path.name] = item_of(data)
        except InvalidInput as error:
            found.problems[file.path.name] = wire.ItemError(code=error.code, message=str(error))
    if not read:
        return
    names = list(read)
    answer = await context.client.score(
        found.model, wire.Item(text=query), list(read.values()), progress=context.progress
    )
    found.model = answer.model
    for one in answer.scores:
        if one.score is not None:
            found.best.append((names[one.index], one.score))
        elif one.error is not None:
            found.problems[names[one.index]] = one.error
