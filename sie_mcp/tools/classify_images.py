"""The tool `classify_images`: pictures into classes that the caller names."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.extract_entities import Label
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.image_files import (
    ImagePaths,
    find_images,
    image_model,
    item_of,
    parts_of,
    read_image,
)
from sie_mcp.tools.index.found import File
from sie_mcp.tools.inputs import Model, as_list
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
MAX_FAILED = 5
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


class FailedImages(Result):
    """Pictures without a class, and why the first of them have none."""

    count: int
    first: list[str]


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


@dataclass(slots=True)
class Labelled:
    """What is known so far."""

    model: str = ""
    images: list[LabelledImage] = field(default_factory=list)
    failed: dict[str, wire.ItemError] = field(default_factory=dict)


async def label_images(
    client: EngineClient,
    config: Config,
    model: str,
    files: Sequence[File],
    params: wire.ExtractParams,
    progress: Progress,
) -> Labelled:
    """Read pictures and have them classified, part by part."""
    labelled = Labelled(model)
    done = 0
    for part in parts_of(files):
        await progress(done, len(files), f"classifying with {model}")
        read = await anyio.to_thread.run_sync(_read_all, part, config, labelled)
        if read:
            items = [item_of(data) for _, data in read]
            answer = await client.extract(model, items, params, progress=progress)
            labelled.model = answer.model
            for (name, _), item in zip(read, answer.items, strict=True):
                _add(labelled, name, item)
        done += len(part)
    raise_if_all_failed(dict(enumerate(labelled.failed.values())), len(files))
    return labelled


def _read_all(files: Sequence[File], config: Config, labelled: Labelled) -> list[tuple[str, bytes]]:
    read = []
    for file in files:
        try:
            read.append((file.path.name, read_image(file.path, config)))
        except InvalidInput as error:
            labelled.failed[file.path.name] = wire.ItemError(code=error.code, message=str(error))
    return read


def _add(labelled: Labelled, name: str, item: wire.ExtractedItem) -> None:
    if item.error is not None:
        labelled.failed[name] = item.error
        return
    labels = [ImageLabel(label=one.label, score=one.score) for one in item.classifications]
    labelled.images.append(LabelledImage(path=name, labels=labels))


def _rows(labelled: Labelled) -> list[dict[str, object]]:
    """Return a row a class of a picture, and one a picture without."""
    rows: list[dict[str, object]] = []
    for image in labelled.images:
        rows += [
            {"path": image.path, "label": one.label, "score": round(one.score, SCORE_DIGITS)}
            for one in image.labels
        ] or [{"path": image.path}]
    rows += [{"path": path, "error": one.message} for path, one in labelled.failed.items()]
    return rows


def _failed(labelled: Labelled) -> FailedImages | None:
    if not labelled.failed:
        return None
    lines = [f"{path}: {error.message}" for path, error in labelled.failed.items()]
    return FailedImages(count=len(lines), first=lines[:MAX_FAILED])


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
    await context.progress(0, 1, "looking for pictures")
    found = await anyio.to_thread.run_sync(
        find_images, context.folders, paths, abandon_on_cancel=True
    )
    if len(found.files) > MAX_IMAGES:
        raise InvalidInput(
            f"paths: {len(found.files):,} pictures, the limit is {MAX_IMAGES:,}; name folders below"
        )
    options = wire.ExtractOptions(
        top_k=top_k, threshold=threshold, hypothesis_template=template or None
    )
    chosen = await image_model(context.client, model)
    labelled = await label_images(
        context.client,
        context.config,
        chosen,
        list(found.files.values()),
        wire.ExtractParams(labels=list(labels), options=options),
        context.progress,
    )
    limit = context.list_tokens
    if output is not None:
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _rows(labelled))
        limit = min(limit, SAMPLE_TOKENS)
    shown = labelled.images[: num_fitting(labelled.images, limit)]
    omitted = len(labelled.images) - len(shown)
    is_cut = bool(omitted) and output is None
    counts = Counter(image.labels[0].label for image in labelled.images if image.labels)
    return compact(
        ClassifyImagesResult(
            model=labelled.model,
            num_images=len(found.files),
            counts=dict(counts.most_common()),
            results=shown,
            output_path=str(output.path) if output else None,
            omitted=or_none(omitted),
            resource=await context.keep(labelled.images) if is_cut else None,
            failed=_failed(labelled),
            hint="write all to a file with output_path, or name fewer paths" if is_cut else None,
        )
    )
