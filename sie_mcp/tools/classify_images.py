"""The tool `classify_images`: pictures into classes that the caller names."""

from collections import Counter
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.extract_entities import Label
from sie_mcp.tools.image_files import ImagePaths, image_model
from sie_mcp.tools.inputs import Model, as_list
from sie_mcp.tools.looking import FailedImages, Looked, look_at, pictures_of
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import (
    SCORE_DIGITS,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
)

MAX_IMAGES = 2_000
SAMPLE_TOKENS = 100
_COLUMNS: dict[str, ColumnType] = {
    "path": "text",
    "label": "text",
    "score": "float",
    "error": "text",
}


class ImageLabel(Result):
    """A class and how sure the model is of it."""

    label: str
    score: RoundedScore


class LabelledImage(Result):
    """A picture and its classes, the best first; none is over the threshold where it is empty."""

    path: str
    labels: list[ImageLabel]


class ClassifyImagesResult(Result):
    """The classes of pictures in the order of their paths; `counts` by the best class."""

    model: str
    num_images: int
    counts: dict[str, int]
    results: list[LabelledImage]
    output_path: str | None = None
    omitted: int | None = None
    resource: str | None = None
    failed: FailedImages | None = None
    hint: str | None = None


def _labelled(looked: Looked) -> list[LabelledImage]:
    return [
        LabelledImage(
            path=path,
            labels=[ImageLabel(label=one.label, score=one.score) for one in item.classifications],
        )
        for path, item in looked.found.items()
    ]


def _rows(images: list[LabelledImage], looked: Looked) -> list[dict[str, object]]:
    """Return a row a class of a picture, and one a picture without."""
    rows: list[dict[str, object]] = []
    for image in images:
        rows += [
            {"path": image.path, "label": one.label, "score": round(one.score, SCORE_DIGITS)}
            for one in image.labels
        ] or [{"path": image.path}]
    rows += [{"path": path, "error": one.message} for path, one in looked.failed.items()]
    return rows


async def classify_images(
    ctx: ToolCall,
    labels: Annotated[
        list[Label],
        BeforeValidator(as_list),
        Field(min_length=1, max_length=1_000, description="Classes, as words: shoe, bag, watch."),
    ],
    paths: ImagePaths = ["."],  # noqa: B006
    template: Annotated[
        str,
        Field(
            max_length=500, description="Sentence around a class; default: 'This is a photo of {}.'"
        ),
    ] = "",
    top_k: Annotated[int, Field(ge=1, le=20, description="Classes a picture.")] = 1,
    threshold: Annotated[
        float | None, Field(ge=0, le=1, description="Least score of a class.")
    ] = None,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, ClassifyImagesResult]:
    """Sort pictures in folders into classes that you name, without opening them.

    Use it for any classes that can be seen: kinds of products, scenes, chart or photo. Classes are
    compared by their words: make them short and different. Not for text in pictures.

    Returns {path, labels: [{label, score}]} in the order of paths, and counts by the best class.
    Scores are probabilities: SigLIP models judge each class alone, and all may be low where none
    fits; CLIP models share 1 among the classes. With output_path: a row a picture and class there,
    and here counts and the first. Limit: 2,000 pictures.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    files = await pictures_of(context, paths, MAX_IMAGES)
    options = wire.ExtractOptions(
        top_k=top_k, threshold=threshold, hypothesis_template=template or None
    )
    chosen = await image_model(context.client, model)
    looked = await look_at(
        context.client,
        context.config,
        chosen,
        files,
        wire.ExtractParams(labels=list(labels), options=options),
        context.progress,
    )
    images = _labelled(looked)
    limit = context.list_tokens
    if output is not None:
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _rows(images, looked))
        limit = min(limit, SAMPLE_TOKENS)
    shown = images[: num_fitting(images, limit)]
    omitted = len(images) - len(shown)
    is_cut = bool(omitted) and output is None
    counts = Counter(image.labels[0].label for image in images if image.labels)
    return compact(
        ClassifyImagesResult(
            model=looked.model,
            num_images=len(files),
            counts=dict(counts.most_common()),
            results=shown,
            output_path=str(output.path) if output else None,
            omitted=or_none(omitted),
            resource=await context.keep(images) if is_cut else None,
            failed=looked.failures,
            hint="write all to a file with output_path, or name fewer paths" if is_cut else None,
        )
    )
