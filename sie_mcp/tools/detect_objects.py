"""The tool `detect_objects`: which things are in pictures, how many, and where."""

from collections import Counter
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.extract_entities import Label
from sie_mcp.tools.image_files import ImagePaths
from sie_mcp.tools.inputs import Model, as_list
from sie_mcp.tools.looking import FailedImages, Looked, look_at, pictures_of, seeing_model
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import (
    SCORE_DIGITS,
    LimitedResult,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
)

MAX_IMAGES = 2_000
SAMPLE_TOKENS = 500
ADVICE = "name google/owlv2-base-patch16-ensemble, or another OWL or Grounding DINO, as model"
_COLUMNS: dict[str, ColumnType] = {
    "path": "text",
    "label": "text",
    "score": "float",
    "left": "int",
    "top": "int",
    "right": "int",
    "bottom": "int",
    "error": "text",
}


class SeenObject(Result):
    """A thing; its box is [left, top, right, bottom] in pixels."""

    label: str
    score: RoundedScore
    box: list[int]


class ObjectsOfImage(Result):
    """A picture's things, the surest first."""

    path: str
    objects: list[SeenObject]


class DetectObjectsResult(LimitedResult):
    """How many of each label there are in all, then each picture in which there are any."""

    model: str
    num_images: int
    counts: dict[str, int]
    images_with: dict[str, int]
    results: list[ObjectsOfImage]
    output_path: str | None = None
    resource: str | None = None
    failed: FailedImages | None = None
    hint: str | None = None


def _rows(looked: Looked) -> list[dict[str, object]]:
    """Return a row a thing, and one a picture that failed."""
    rows: list[dict[str, object]] = []
    for path, item in looked.found.items():
        for one in item.objects:
            places = zip(("left", "top", "right", "bottom"), _box(one.bbox), strict=True)
            score = round(one.score, SCORE_DIGITS)
            rows.append({"path": path, "label": one.label, "score": score, **dict(places)})
    return rows + [{"path": path, "error": one.message} for path, one in looked.failed.items()]


def _box(bbox: list[float]) -> list[int]:
    return [round(one) for one in bbox]


def _images(looked: Looked) -> list[ObjectsOfImage]:
    return [
        ObjectsOfImage(
            path=path,
            objects=[
                SeenObject(label=one.label, score=one.score, box=_box(one.bbox))
                for one in item.objects
            ],
        )
        for path, item in looked.found.items()
        if item.objects
    ]


async def detect_objects(
    ctx: ToolCall,
    labels: Annotated[
        list[Label],
        BeforeValidator(as_list),
        Field(min_length=1, max_length=100, description="Things to find: a red shoe, forklift."),
    ],
    paths: ImagePaths = ["."],  # noqa: B006
    threshold: Annotated[
        float | None, Field(ge=0, le=1, description="Least score; default: the model's own.")
    ] = None,
    top_k: Annotated[int, Field(ge=1, le=300, description="Most things a picture.")] = 50,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, DetectObjectsResult]:
    """Find things that you name in pictures: how many, and where, without opening them.

    Use it to count or locate: products on a shelf, people, damage. Name single things as they look.
    To sort whole pictures use classify_images. Needs an OWL or Grounding DINO model.

    Returns counts by label, then {path, objects: [{label, score, box}]} of pictures with any; box
    is [left, top, right, bottom] in pixels. With output_path: a row a thing there, and here counts
    and the first. Scores are low by nature: try 0.1 to 0.4. Limit: 2,000 pictures.
    """
    context = tool_context(ctx)
    progress = context.progress
    output = find_output(context, output_path)
    files = await pictures_of(context, paths, MAX_IMAGES)
    chosen = await seeing_model(context.client, model, "objects", ADVICE, progress)
    options = wire.ExtractOptions(threshold=threshold, top_k=top_k)
    params = wire.ExtractParams(labels=list(labels), options=options)
    looked = await look_at(context.client, context.config, chosen, files, params, progress)
    limit = context.list_tokens
    if output is not None:
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _rows(looked))
        limit = min(limit, SAMPLE_TOKENS)
    images = _images(looked)
    shown = images[: num_fitting(images, limit)]
    omitted = len(images) - len(shown)
    is_cut = bool(omitted) and output is None
    per_image = [{one.label for one in image.objects} for image in images]
    counts = Counter(one.label for image in images for one in image.objects)
    return compact(
        DetectObjectsResult(
            model=looked.model,
            num_images=len(files),
            counts=dict(counts.most_common()),
            images_with=dict(Counter(one for labels in per_image for one in labels).most_common()),
            results=shown,
            output_path=str(output.path) if output else None,
            omitted=or_none(omitted),
            resource=await context.keep(images) if is_cut else None,
            failed=looked.failures,
            hint="write all to a file with output_path, or raise threshold" if is_cut else None,
        ),
        context.config.max_result_tokens,
    )
