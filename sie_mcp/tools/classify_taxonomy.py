"""The tool `classify_taxonomy`: put texts, or a file's rows, into a tree of categories."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.catalogue.taxonomy import Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.choice import Choice, Classification
from sie_mcp.tools.categories.file_rows import find_rows
from sie_mcp.tools.categories.file_run import run_files
from sie_mcp.tools.categories.labelled import (
    ClassifyOptions,
    ClassifyResult,
    ImageProblems,
    Labelled,
    Place,
    columns_of,
    label,
    row_of,
)
from sie_mcp.tools.categories.pictures import PictureReader, make_picture_reader
from sie_mcp.tools.categories.products import Products, check_pictures
from sie_mcp.tools.categories.summary import Summary
from sie_mcp.tools.classification import classify, prepare
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.examples import read_examples
from sie_mcp.tools.failures import failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, read_inputs
from sie_mcp.tools.long_work import in_thread
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import compact, num_fitting, or_none
from sie_mcp.tools.taxonomy_files import find_taxonomy


async def classify_inputs(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    inputs: Inputs,
    taxonomy: Taxonomy,
    options: ClassifyOptions,
    progress: Progress,
    pictures: PictureReader | None = None,
) -> ClassifyResult:
    """Classify, then list the results or write them and sum them up."""
    found = await classify(
        client,
        store,
        model,
        inputs.texts,
        taxonomy,
        choice=options.choice,
        progress=progress,
        pictures=pictures,
        images=inputs.images,
    )
    places = [_place(inputs, text.place) for text in found.texts]
    labelled = [
        label(text, place, options) for text, place in zip(found.texts, places, strict=True)
    ]
    problems = ImageProblems()
    for entry in labelled:
        problems.add(entry)
    result = ClassifyResult(
        model=found.model,
        companion=found.companion,
        reranker=options.choice.reranker or None,
        image_model=pictures and pictures.model,
        taxonomy=taxonomy.name,
        num_categories=len(taxonomy.paths),
        count=len(inputs.items),
        num_unsure=or_none(sum(entry.unsure or False for entry in labelled)),
        num_at_parent=or_none(sum(entry.at_parent or False for entry in labelled)),
        blank_rows=or_none(inputs.num_blank),
        failed=failures(found.failed, inputs.indices),
        failed_images=problems.result,
    )
    if options.output is None:
        await _add_list(result, labelled, options)
    else:
        await progress(0, 1, f"writing {options.output.name}")
        columns = columns_of(pictures is not None)
        await anyio.to_thread.run_sync(_write, options.output, columns, found, inputs, labelled)
        result.output_path = str(options.output.path)
        summary = Summary()
        for text, entry in zip(found.texts, labelled, strict=True):
            summary.add(entry, inputs.items[text.place].text or "")
        summary.put_into(result, options.max_tokens)
    return result


def _place(inputs: Inputs, place: int) -> Place:
    return Place(inputs.indices[place], inputs.items[place].id, inputs.source(place))


async def _add_list(
    result: ClassifyResult, labelled: list[Labelled], options: ClassifyOptions
) -> None:
    """List what fits; alternatives give way before texts do."""
    num_shown = num_fitting(labelled, options.max_tokens)
    if num_shown < len(labelled):
        result.resource = await options.keep(labelled)
        labelled = [entry.model_copy(update={"alternatives": None}) for entry in labelled]
        num_shown = num_fitting(labelled, options.max_tokens)
        result.hint = (
            "too many for alternatives; write everything to a file with output_path, or send fewer"
        )
    result.results = labelled[:num_shown]
    result.omitted = or_none(len(labelled) - num_shown)


def _write(
    path: AllowedPath,
    columns: Mapping[str, ColumnType],
    found: Classification,
    inputs: Inputs,
    labelled: list[Labelled],
) -> None:
    """Write a row for each text."""
    is_nested = path.ending == ".jsonl"
    write_rows(
        path,
        columns,
        (
            row_of(
                entry,
                inputs.items[text.place].text or "",
                inputs.sources[text.place] if inputs.sources else None,
                is_nested=is_nested,
            )
            for text, entry in zip(found.texts, labelled, strict=True)
        ),
    )


TaxonomyName = Annotated[
    str | list[str],
    Field(
        description="shopify, google (built in), a file (.txt, .csv, .json), or a list of at "
        'most 2,000 paths like "A > B > C" or labels.'
    ),
]


async def classify_taxonomy(
    ctx: ToolCall,
    texts: Products = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    taxonomy: TaxonomyName = "shopify",
    top_k: Annotated[
        int, Field(ge=1, le=20, description="Categories a text, the answer and alternatives.")
    ] = 3,
    min_score: Annotated[
        float | None, Field(description="Mark texts below it as unsure; 0.45 is a start.")
    ] = None,
    min_confidence: Annotated[
        float, Field(ge=0, le=1, description="Less sure: the parent, or unsure.")
    ] = 0.0,
    examples: Annotated[
        str, Field(max_length=4_096, description="File of examples: columns text, category.")
    ] = "",
    output_path: OutputPath = "",
    model: Model = "auto",
    reranker: Annotated[
        str, Field(max_length=1_024, description="Score model for the top 20.")
    ] = "",
    image_model: Annotated[
        str, Field(max_length=1_024, description="CLIP or SigLIP, to look at images too.")
    ] = "",
    image_column: Annotated[
        str, Field(max_length=1_024, description="Column of the images' paths.")
    ] = "",
) -> Annotated[CallToolResult, ClassifyResult]:
    """Put products or other texts into the right category of a taxonomy, Shopify's or your own.

    Use it for three labels up to 100,000 categories: the Shopify product taxonomy (10,595) is built
    in. For more than about 30 texts give a file and an output_path: you get a summary and never
    read the rows. A few examples of each category help most. Not for finding names in texts
    (extract_entities).

    Returns for each text {index, id?, category_id, path, score, confidence, alternatives}. With
    output_path: counts by top category and the least sure texts. Scores are cosines; confidence
    estimates how likely the path is right. The first call with a new taxonomy prepares it (a minute
    or two), later ones take seconds. Limit: 1,000 texts in a call, 10,000 rows in files.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    if reranker == "auto":
        raise InvalidInput(
            "reranker: name a cross-encoder of list_models; the default comparer of texts makes "
            "categories worse"
        )
    images = [product.image or "" for product in texts]
    check_pictures(image_model, image_column, has_images=any(images), path=path)
    if path and not texts and output is not None:
        rows = find_rows(context, path, columns, image_column)
        await context.progress(0, 1, f"reading {path}")
        counted = await in_thread(rows.count)
    else:
        inputs = await read_inputs(context, texts, path, columns, image_column=image_column)
        inputs, rows = replace(inputs, images=inputs.images or images), None
    tree = await find_taxonomy(context, taxonomy)
    store = NodeVectorStore(context.client, context.config.cache_dir / "taxonomies")
    labelled = await read_examples(context, examples, tree)
    choice = Choice(top_k, min_confidence, labelled, reranker=reranker)
    options = ClassifyOptions(choice, min_score, output, context.list_tokens, context.keep)
    pictures = None
    if image_model and (image_column or any(images)):
        pictures = await make_picture_reader(context, store, image_model, tree)
    if rows is not None and output is not None:
        classifier = await prepare(context.client, store, model, tree, choice, context.progress)
        classifier = replace(classifier, pictures=pictures)
        result = await run_files(classifier, rows, counted, options, output, context.progress)
    else:
        result = await classify_inputs(
            context.client, store, model, inputs, tree, options, context.progress, pictures
        )
    return compact(result, context.config.max_result_tokens)
