"""The tool `search_images`: pictures in a folder by words, or by another picture."""

from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall, ToolContext, tool_context
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.image_files import (
    ENDINGS,
    ImagePaths,
    find_images,
    image_model,
    item_of,
    read_image,
)
from sie_mcp.tools.index.encoder import Encoder, Question
from sie_mcp.tools.index.found import Found
from sie_mcp.tools.index.image_index import ImageIndex, open_image_index
from sie_mcp.tools.inputs import Model, check_query
from sie_mcp.tools.model_cards import AUTO
from sie_mcp.tools.page_scores import compares_pages, score_pages
from sie_mcp.tools.result import Result, RoundedScore, compact, num_fitting, or_none
from sie_mcp.tools.vectors import PROBE

MAX_TOP_K = 100
MAX_SKIPPED = 3


class FoundImage(Result):
    """A picture, and its cosine with what was looked for; of a page, the sum of those of tokens."""

    path: str
    score: RoundedScore


class SkippedImages(Result):
    """Pictures that cannot be read, and why the first of them cannot."""

    count: int
    first: list[str]


class ImageSearchResult(Result):
    """The best pictures first; scores compare within one answer only."""

    model: str
    num_images: int
    results: list[FoundImage]
    omitted: int | None = None
    skipped: SkippedImages | None = None
    hint: str | None = None


async def ask_for_images(
    context: ToolContext, model: str, query: str, like: str, progress: Progress
) -> Question:
    """Embed what is looked for, and with it the probe.

    Raises:
        InvalidInput: not exactly one of query and like; no such picture.
    """
    if bool(query) == bool(like):
        raise InvalidInput("give either query, in words, or like, the path of a picture")
    if query:
        check_query(query)
        wanted = wire.Item(text=query)
    else:
        path = context.folders.to_read(like, ENDINGS, argument="like")
        wanted = item_of(await anyio.to_thread.run_sync(read_image, path, context.config))
    return await _question(context.client, model, wanted, progress)


async def _question(
    client: EngineClient, model: str, wanted: wire.Item, progress: Progress
) -> Question:
    params = wire.EncodeParams(output_types=["dense"], options=wire.EncodeOptions(normalize=True))
    answer = await client.encode(model, [wanted, wire.Item(text=PROBE)], params, progress=progress)
    for place, item in enumerate(answer.items):
        if item.error is not None or item.dense is None:
            raise_if_all_failed({0: item.error} if item.error else {}, 1)
            raise InvalidInput(f"item {place} has no vector")
    vector, probe = (one.dense.values for one in answer.items if one.dense is not None)
    return Question(wanted.text or "", vector, Encoder(answer.model, probe))


def _skipped(index: ImageIndex, found: Found) -> SkippedImages | None:
    problems = [
        index.known[key].problem
        for key in found.files
        if key in index.known and index.known[key].problem
    ]
    return _first(problems)


def _first(problems: list[str]) -> SkippedImages | None:
    if not problems:
        return None
    return SkippedImages(count=len(problems), first=problems[:MAX_SKIPPED])


async def search_images(
    ctx: ToolCall,
    query: Annotated[str, Field(description="What the picture shows, in words.")] = "",
    like: Annotated[
        str, Field(max_length=4_096, description="Or the path of a picture, for similar ones.")
    ] = "",
    paths: ImagePaths = ["."],  # noqa: B006
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, description="How many pictures.")] = 10,
    model: Model = "auto",
) -> Annotated[CallToolResult, ImageSearchResult]:
    """Find pictures in folders by what they show, in words, or by a picture they resemble.

    Use it instead of opening pictures one by one: photos, product shots, screenshots (JPEG, PNG,
    WebP, GIF, BMP, TIFF). Name what is seen, as a caption does: "a red shoe on a white table". It
    reads no small print; to find scanned pages by what they say, name a ColPali or ColQwen2 as
    model. To sort pictures into known classes use classify_images.

    Returns {path, score}, best first. Something always comes first: look at the best ones before
    you rely on them. The first search of a folder indexes it, which takes a while; later ones read
    only what changed. Limit: 20,000 pictures.
    """
    context = tool_context(ctx)
    progress = context.progress
    await progress(0, 1, "looking for pictures")
    found = await anyio.to_thread.run_sync(
        find_images, context.folders, paths, abandon_on_cancel=True
    )
    chosen = await image_model(context.client, model)
    if model != AUTO and await compares_pages(context.client, model, progress):
        files = list(found.files.values())
        pages = await score_pages(context, model, "" if like else query, files)
        problems = [f"{path}: {error.message}" for path, error in pages.problems.items()]
        return _answer(context, pages.model, len(files), pages.best[:top_k], _first(problems))
    question = await ask_for_images(context, chosen, query, like, progress)
    index = await open_image_index(
        context.client, context.config, question.encoder, found, progress
    )
    hits = await index.search(question.vector, found, top_k)
    best = [(found.files[key].path.name, score) for key, score in hits]
    skipped = _skipped(index, found)
    return _answer(context, question.encoder.model, len(found.files), best, skipped)


def _answer(
    context: ToolContext,
    model: str,
    num_images: int,
    best: list[tuple[str, float]],
    skipped: SkippedImages | None,
) -> CallToolResult:
    results = [FoundImage(path=path, score=score) for path, score in best]
    shown = results[: num_fitting(results, context.list_tokens)]
    omitted = len(results) - len(shown)
    return compact(
        ImageSearchResult(
            model=model,
            num_images=num_images,
            results=shown,
            omitted=or_none(omitted),
            skipped=skipped,
            hint="use a smaller top_k, or fewer paths" if omitted else None,
        )
    )
