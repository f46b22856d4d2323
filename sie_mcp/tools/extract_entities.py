"""The tool `extract_entities`: typed pieces of texts, with offsets. One call of `extract`."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import DownloadFailed, InvalidInput, ModelNotFound
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.entity_labels import Search, choose_search, instead
from sie_mcp.tools.failures import Failures, failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.outputs import ColumnType, OutputPath, Rows, find_output, write_rows
from sie_mcp.tools.result import (
    SCORE_DIGITS,
    LimitedResult,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
    result_tokens,
)

MAX_LABELS = 100
MAX_SPANS = 20
CUT_TOKENS = 30  # what an entry costs besides its entities
SAMPLE_TOKENS = 100  # what is shown of a list that is in a file
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "label": "text",
    "text": "text",
    "start": "int",
    "end": "int",
    "score": "float",
}


class Found(Result):
    """One entity: the places it stands at, `text[start:end]`, and its best score."""

    label: str
    text: str
    spans: list[list[int]]
    more_spans: int | None = None
    score: RoundedScore


class TextEntities(Result):
    """What one text holds. `read_to`: the character where reading stopped, if it did."""

    index: int
    id: str | None = None
    source: str | None = None
    entities: list[Found]
    entities_omitted: int | None = None
    truncated: bool | None = None
    read_to: int | None = None


class ExtractResult(LimitedResult):
    """Entities of the texts that have any; `labels` is what was looked for.

    `labels_left_out` are those that were not, for the `reason` given.
    """

    model: str
    labels: list[str] | None = None
    labels_left_out: list[str] | None = None
    reason: str | None = None
    count: int
    counts: dict[str, int]
    results: list[TextEntities]
    output_path: str | None = None
    num_written: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def find_entities(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    labels: Sequence[str] | None,
    *,
    threshold: float | None,
    output: AllowedPath | None,
    max_tokens: int,
    keep: Keep = keep_nothing,
    progress: Progress,
) -> ExtractResult:
    """Extract, group equal mentions, and keep what fits; with `output` a sample of it."""
    search, answer = await _ask(client, model, inputs, labels, threshold, progress)
    failed = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(failed, len(inputs.items))
    if any(item.classifications for item in answer.items):
        raise InvalidInput(
            f"{answer.model} labels whole texts and finds no entities; name another model "
            "(list_models)"
        )
    found = [
        _grouped(item, inputs, place)
        for place, item in enumerate(answer.items)
        if item.entities or item.truncated
    ]
    if output is not None:
        await progress(0, 1, f"writing {output.name}")
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _mentions(answer, inputs))
        max_tokens = min(max_tokens, SAMPLE_TOKENS)
    shown = fit(found, max_tokens)
    omitted = len(found) - len(shown)
    is_cut = omitted or any(text.entities_omitted for text in shown)
    counts = Counter(entity.label for item in answer.items for entity in item.entities)
    return ExtractResult(
        model=answer.model,
        labels=search.labels or (await client.model(answer.model)).labels,
        labels_left_out=list(search.left_out) or None,
        reason=search.reason or None,
        count=len(inputs.items),
        counts=dict(sorted(counts.items())),
        results=shown,
        output_path=str(output.path) if output else None,
        num_written=sum(counts.values()) if output else None,
        omitted=or_none(omitted),
        resource=await keep(found) if is_cut and output is None else None,
        blank_rows=or_none(inputs.num_blank),
        failed=failures(failed, inputs.indices),
        hint="for what was left out call again with those texts only, fewer labels or a higher "
        "threshold"
        if is_cut and output is None
        else None,
    )


async def _ask(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    labels: Sequence[str] | None,
    threshold: float | None,
    progress: Progress,
) -> tuple[Search, wire.ExtractResponse]:
    """Ask the model that fits the labels; where it cannot be had, the one that is left."""
    options = wire.ExtractOptions(threshold=threshold)
    search = await choose_search(client, model, labels, progress)
    while True:
        params = wire.ExtractParams(labels=search.labels, options=options)
        try:
            answer = await client.extract(search.model, inputs.items, params, progress=progress)
        except (DownloadFailed, ModelNotFound) as error:
            if search.otherwise is None:
                raise
            search = instead(search, error, await client.model(search.otherwise.model))
        else:
            return search, answer


def _mentions(answer: wire.ExtractResponse, inputs: Inputs) -> Rows:
    """Yield a row for each mention, in the order of the texts."""
    for place, item in enumerate(answer.items):
        for entity in sorted(item.entities, key=lambda entity: (entity.start, entity.end)):
            yield {
                "index": inputs.indices[place],
                "id": inputs.items[place].id,
                "source": inputs.sources[place] if inputs.sources else None,
                "label": entity.label,
                "text": entity.text,
                "start": entity.start,
                "end": entity.end,
                "score": round(entity.score, SCORE_DIGITS),
            }


def fit(found: Sequence[TextEntities], max_tokens: int) -> list[TextEntities]:
    """Keep the first texts that fit; of the next one, the first entities that do."""
    shown = list(found[: num_fitting(found, max_tokens)])
    if len(shown) < len(found):
        cut = found[len(shown)]
        left = max_tokens - sum(map(result_tokens, shown)) - CUT_TOKENS
        entities = cut.entities[: num_fitting(cut.entities, left)]
        if entities:
            omitted = len(cut.entities) - len(entities)
            shown.append(
                cut.model_copy(update={"entities": entities, "entities_omitted": or_none(omitted)})
            )
    return shown


def _grouped(item: wire.ExtractedItem, inputs: Inputs, place: int) -> TextEntities:
    """Put equal mentions together; entities stay in the order of their first mention."""
    groups: dict[tuple[str, str], list[wire.Entity]] = {}
    for entity in sorted(item.entities, key=lambda entity: (entity.start, entity.end)):
        groups.setdefault((entity.label, entity.text), []).append(entity)
    entities = [
        Found(
            label=label,
            text=text,
            spans=[[entity.start, entity.end] for entity in mentions[:MAX_SPANS]],
            more_spans=or_none(len(mentions[MAX_SPANS:])),
            score=max(entity.score for entity in mentions),
        )
        for (label, text), mentions in groups.items()
    ]
    return TextEntities(
        index=inputs.indices[place],
        id=inputs.items[place].id,
        source=inputs.source(place),
        entities=entities,
        truncated=item.truncated or None,
        read_to=item.read_to,
    )


def _as_labels(value: Any) -> Any:
    return [label.strip() for label in value.split(",")] if isinstance(value, str) else value


Label = Annotated[str, Field(min_length=1, max_length=200)]
Labels = Annotated[
    list[Label],
    BeforeValidator(_as_labels),
    Field(
        min_length=1,
        max_length=MAX_LABELS,
        description="What to look for, any words; default: all the model knows.",
    ),
]


async def extract_entities(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    labels: Labels | None = None,
    threshold: Annotated[
        float | None, Field(ge=0, le=1, description="Least score; default: the model's own.")
    ] = None,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, ExtractResult]:
    """Find names, addresses, phone numbers and other typed entities in texts, with offsets.

    Use it to pull people, contact data or personal data out of many or long texts without reading
    them, or to know what to mask. Without labels it looks for personal data only; other labels
    ("company", "drug dose") take a larger model, fetched on first use. Not for questions about a
    text (filter_context).

    Returns for each text that has any {index, id?, entities: [{label, text, spans, score}]}, spans
    [start, end) in characters; `labels` is what was looked for, read_to where reading of a long
    text stopped. With output_path a row for each mention there, here counts and a sample. Limit:
    1,000 texts, 10,000 rows in files; a .txt, .md, .html, .docx file or a page of .pdf is one text.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    inputs = await read_inputs(context, texts, path, columns, whole=True)
    result = await find_entities(
        context.client,
        model,
        inputs,
        labels,
        threshold=threshold,
        output=output,
        max_tokens=context.list_tokens,
        keep=context.keep,
        progress=context.progress,
    )
    return compact(result, context.config.max_result_tokens)
