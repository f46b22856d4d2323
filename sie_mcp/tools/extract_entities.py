"""The tool `extract_entities`: typed pieces of texts, with offsets. One call of `extract`."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.failures import Failures, failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.outputs import ColumnType, OutputPath, Rows, find_output, write_rows
from sie_mcp.tools.progress import CallProgress
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
SAMPLE_TOKENS = 300  # what is shown of a list that is in a file
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
    """Entities of the texts that have any; `labels` is what was looked for."""

    model: str
    labels: list[str] | None = None
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
    wanted = labels and match_labels(labels, await _card(client, model))
    params = wire.ExtractParams(labels=wanted, options=wire.ExtractOptions(threshold=threshold))
    answer = await client.extract(model, inputs.items, params, progress=progress)
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
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _mentions(answer, inputs))
        max_tokens = min(max_tokens, SAMPLE_TOKENS)
    shown = fit(found, max_tokens)
    omitted = len(found) - len(shown)
    is_cut = omitted or any(text.entities_omitted for text in shown)
    counts = Counter(entity.label for item in answer.items for entity in item.entities)
    return ExtractResult(
        model=answer.model,
        labels=wanted or (await client.model(answer.model)).labels,
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


def match_labels(labels: Sequence[str], card: wire.ModelCard | None) -> list[str]:
    """Write labels as the model does, whatever their case; some models take any label.

    Raises:
        InvalidInput: a label the model does not know, with those it does.
    """
    if card is None or card.labels is None:
        return list(dict.fromkeys(labels))
    known = {label.casefold(): label for label in card.labels}
    for label in labels:
        if label.casefold() not in known:
            raise InvalidInput(
                f"{card.name} does not know the label {label!r}; "
                f"it knows {', '.join(card.labels)}; leave labels out for all of them"
            )
    return list(dict.fromkeys(known[label.casefold()] for label in labels))


async def _card(client: EngineClient, model: str) -> wire.ModelCard | None:
    """Describe the model that will answer; None when the worker has no default yet."""
    if model != "auto":
        return await client.model(model)
    listing = await client.models()
    name = listing.defaults.get("extract")
    return next((card for card in listing.models if card.name == name), None)


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
        description="What to look for; default: all the model knows (list_models).",
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
    them, or to know what to mask. The default model finds personal data only: not organisations,
    products or places as such; the result's `labels` says what was looked for. For another kind
    name a model whose labels fit (list_models). Not for questions about a text (filter_context).

    Returns for each text that has any: {index, id?, entities: [{label, text, spans, score}]}.
    spans are [start, end) in characters, one for each place the same entity stands at. Long texts
    are read in windows; truncated=true and read_to say where reading stopped. With output_path: a
    row for each mention there, and here counts and the first texts. Limit: 1,000 texts in a call,
    10,000 rows in files; a .txt, .md, .html or .docx file is one text, a page of a .pdf too.
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
        progress=CallProgress(ctx),
    )
    return compact(result, context.config.max_result_tokens)
