"""The tool `describe_image`: a caption of pictures, or the text that stands in them."""

from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.image_files import ImagePaths
from sie_mcp.tools.inputs import Model
from sie_mcp.tools.looking import FailedImages, Looked, look_at, pictures_of, seeing_model
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import LimitedResult, Result, compact, num_fitting, or_none

MAX_IMAGES = 500
SAMPLE_TOKENS = 500
ADVICE = (
    "name Salesforce/blip-image-captioning-base for captions, or microsoft/trocr-base-printed for "
    "a line of print, as model"
)
_COLUMNS: dict[str, ColumnType] = {
    "path": "text",
    "text": "text",
    "truncated": "text",
    "error": "text",
}


class DescribedImage(Result):
    """A picture's text; `truncated`: it would go on."""

    path: str
    text: str
    truncated: bool | None = None


class DescribeImageResult(LimitedResult):
    """The texts of pictures in the order of their paths."""

    model: str
    num_images: int
    results: list[DescribedImage]
    output_path: str | None = None
    resource: str | None = None
    failed: FailedImages | None = None
    hint: str | None = None


def _rows(images: list[DescribedImage], looked: Looked) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"path": one.path, "text": one.text, "truncated": "yes" if one.truncated else ""}
        for one in images
    ]
    return rows + [{"path": path, "error": one.message} for path, one in looked.failed.items()]


async def describe_image(
    ctx: ToolCall,
    paths: ImagePaths = ["."],  # noqa: B006
    ask: Annotated[
        str,
        Field(
            max_length=500,
            description="What the model was trained on: <OCR> for Florence-2, a caption's start "
            "for BLIP; default: its own.",
        ),
    ] = "",
    max_tokens: Annotated[int, Field(ge=1, le=1_024, description="Longest text.")] = 128,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, DescribeImageResult]:
    """Describe pictures in a sentence, or read the text in them, by what the model can do.

    Use it for captions of many pictures, or text of scans and screenshots, without opening them.
    BLIP and Florence-2 caption, Florence-2 with ask=<OCR> and Donut read pages, TrOCR one line.

    Returns {path, text}; truncated: the text would go on. Models invent: check what matters. With
    output_path: a row a picture there, and here the first. Limit: 500 pictures.
    """
    context = tool_context(ctx)
    progress = context.progress
    output = find_output(context, output_path)
    files = await pictures_of(context, paths, MAX_IMAGES)
    chosen = await seeing_model(context.client, model, "text", ADVICE, progress)
    options = wire.ExtractOptions(max_tokens=max_tokens)
    params = wire.ExtractParams(instruction=ask or None, options=options)
    looked = await look_at(context.client, context.config, chosen, files, params, progress)
    images = [
        DescribedImage(path=path, text=one.text or "", truncated=one.truncated or None)
        for path, one in looked.found.items()
    ]
    limit = context.list_tokens
    if output is not None:
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _rows(images, looked))
        limit = min(limit, SAMPLE_TOKENS)
    shown = images[: num_fitting(images, limit)]
    omitted = len(images) - len(shown)
    is_cut = bool(omitted) and output is None
    return compact(
        DescribeImageResult(
            model=looked.model,
            num_images=len(files),
            results=shown,
            output_path=str(output.path) if output else None,
            omitted=or_none(omitted),
            resource=await context.keep(images) if is_cut else None,
            failed=looked.failures,
            hint="write all to a file with output_path, or name fewer paths" if is_cut else None,
        ),
        context.config.max_result_tokens,
    )
