"""The tool `classify_taxonomy`: put texts, or a file's rows, into a tree of categories."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.classification import Category, Choice, Classification, Classified, classify
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.examples import read_examples
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import (
    LimitedResult,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
    shown_counts,
)
from sie_mcp.tools.taxonomy_files import find_taxonomy

MAX_TOP_CATEGORIES = 20
MAX_LEAST_SURE = 3
EXCERPT_CHARS = 80
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "text": "text",
    "category_id": "text",
    "path": "text",
    "score": "float",
    "confidence": "float",
    "unsure": "bool",
    "truncated": "bool",
    "alternatives": "text",
}


@dataclass(frozen=True, slots=True)
class ClassifyOptions:
    """What to hand back; with `output` only a summary."""

    choice: Choice = field(default_factory=Choice)
    min_score: float | None = None
    output: AllowedPath | None = None
    max_tokens: int = 4_000
    keep: Keep = keep_nothing


class Labelled(Result):
    """One text's category. `unsure`: below min_score or min_confidence."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str | None = None
    category_id: str | None = None
    path: str
    score: RoundedScore
    confidence: RoundedScore | None = None
    unsure: bool | None = None
    truncated: bool | None = None
    alternatives: list[Category] | None = None


class ClassifyResult(LimitedResult):
    """Every text's category, or with a file a summary: counts and the least sure."""

    model: str
    companion: str | None = None
    taxonomy: str
    num_categories: int
    count: int
    num_unsure: int | None = None
    results: list[Labelled] | None = None
    output_path: str | None = None
    counts: dict[str, int] | None = None
    other_counts: int | None = None
    least_sure: list[Labelled] | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def classify_inputs(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    inputs: Inputs,
    taxonomy: Taxonomy,
    options: ClassifyOptions,
    progress: Progress,
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
    )
    labelled = [_labelled(text, inputs, options) for text in found.texts]
    result = ClassifyResult(
        model=found.model,
        companion=found.companion,
        taxonomy=taxonomy.name,
        num_categories=len(taxonomy.paths),
        count=len(inputs.items),
        num_unsure=or_none(sum(entry.unsure or False for entry in labelled)),
        blank_rows=or_none(inputs.num_blank),
        failed=failures(found.failed, inputs.indices),
    )
    if options.output is None:
        await _add_list(result, labelled, options)
    else:
        await progress(0, 1, f"writing {options.output.name}")
        await anyio.to_thread.run_sync(_write, options.output, found, inputs, labelled)
        result.output_path = str(options.output.path)
        _add_summary(result, labelled, found, inputs, options.max_tokens)
    return result


def _labelled(text: Classified, inputs: Inputs, options: ClassifyOptions) -> Labelled:
    best, *others = text.categories
    is_unsure = text.confidence < options.choice.min_confidence or (
        options.min_score is not None and best.score < options.min_score
    )
    return Labelled(
        index=inputs.indices[text.place],
        id=inputs.items[text.place].id,
        source=inputs.source(text.place),
        category_id=best.category_id,
        path=best.path,
        score=best.score,
        confidence=text.confidence,
        unsure=is_unsure or None,
        truncated=text.is_truncated or None,
        alternatives=others or None,
    )


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


def _add_summary(
    result: ClassifyResult,
    labelled: list[Labelled],
    found: Classification,
    inputs: Inputs,
    max_tokens: int,
) -> None:
    """Count by top-level category, and show the texts with the lowest confidence."""
    counts = Counter(entry.path.split(SEPARATOR)[0] for entry in labelled)
    result.counts, num_others = shown_counts(counts, MAX_TOP_CATEGORIES, max_tokens)
    result.other_counts = or_none(num_others)
    texts = inputs.texts
    order = sorted(range(len(labelled)), key=lambda place: (found.texts[place].confidence, place))
    result.least_sure = [
        labelled[place].model_copy(
            update={"text": texts[found.texts[place].place][:EXCERPT_CHARS], "alternatives": None}
        )
        for place in order[:MAX_LEAST_SURE]
    ]


def _write(
    path: AllowedPath, found: Classification, inputs: Inputs, labelled: list[Labelled]
) -> None:
    """Write a row for each text; alternatives are a list in .jsonl, paths in a cell elsewhere."""
    is_nested = path.ending == ".jsonl"
    write_rows(
        path,
        _COLUMNS,
        (
            entry.model_dump(exclude_none=True)
            | {
                "source": inputs.sources[text.place] if inputs.sources else None,
                "text": (inputs.items[text.place].text or "")[:EXCERPT_CHARS],
                **({} if is_nested else {"alternatives": _in_a_cell(entry)}),
            }
            for text, entry in zip(found.texts, labelled, strict=True)
        ),
    )


def _in_a_cell(entry: Labelled) -> str:
    return " | ".join(other.path for other in entry.alternatives or [])


TaxonomyName = Annotated[
    str | list[str],
    Field(
        description="shopify (built in), a file of categories (.txt, .csv, .tsv, .json), or a list "
        'of at most 2,000 paths like "A > B > C" or plain labels.'
    ),
]


async def classify_taxonomy(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
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
    inputs = await read_inputs(context, texts, path, columns)
    tree = await find_taxonomy(context, taxonomy)
    store = NodeVectorStore(context.client, context.config.cache_dir / "taxonomies")
    options = ClassifyOptions(
        Choice(top_k, min_confidence, await read_examples(context, examples, tree)),
        min_score,
        output,
        context.list_tokens,
        context.keep,
    )
    return compact(
        await classify_inputs(
            context.client, store, model, inputs, tree, options, context.progress
        ),
        context.config.max_result_tokens,
    )
