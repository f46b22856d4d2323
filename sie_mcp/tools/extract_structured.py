"""The tool `extract_structured`: records of the caller's own schema out of texts."""

from typing import Annotated, Any

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field, WithJsonSchema

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.detect_pii import Threshold
from sie_mcp.tools.failures import Failures, failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.outputs import find_output, write_new
from sie_mcp.tools.result import Result, compact, num_fitting, or_none
from sie_mcp.tools.structured.models import choose_model
from sie_mcp.tools.structured.schemas import Shape, read_schema
from sie_mcp.tools.structured.values import spans_of, to_values
from sie_mcp.wire_structure import Structure

_ENDINGS = (".jsonl",)
SAMPLE_TOKENS = 100  # what is shown of a list that is in a file


class Place(Result):
    """Where a value stands, [start, end) in characters."""

    field: str
    text: str
    span: list[int]


class TextRecords(Result):
    """The records of one text. `not_typed`: fields whose text was no value of their type."""

    index: int
    id: str | None = None
    source: str | None = None
    records: list[dict[str, Any]]
    spans: list[Place] | None = None
    not_typed: list[str] | None = None
    truncated: bool | None = None


class StructuredResult(Result):
    """Records of all texts that have any; what cannot be found is null."""

    model: str
    count: int
    num_records: int
    results: list[TextRecords]
    output_path: str | None = None
    omitted: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None


async def extract_records(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    shape: Shape,
    *,
    threshold: float | None,
    shows_spans: bool,
    output: AllowedPath | None,
    max_tokens: int,
    keep: Keep = keep_nothing,
    progress: Progress,
) -> StructuredResult:
    """Extract, convert, and keep what fits; with `output` a sample of it."""
    card = await choose_model(client, model, "records", progress)
    options = wire.ExtractOptions(threshold=threshold, structure=Structure(records=shape.records))
    params = wire.ExtractParams(options=options)
    answer = await client.extract(card.name, inputs.items, params, progress=progress)
    failed = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(failed, len(inputs.items))
    found = [
        _text(item, inputs, place, shape, shows_spans=shows_spans)
        for place, item in enumerate(answer.items)
        if place not in failed
    ]
    found = [one for one in found if one.records or one.truncated]
    if output is not None:
        lines = [_line(one, inputs) for one in found]
        await anyio.to_thread.run_sync(write_new, output, lambda file: file.writelines(lines))
        max_tokens = min(max_tokens, SAMPLE_TOKENS)
    num_shown = num_fitting(found, max_tokens)
    omitted = len(found) - num_shown
    return StructuredResult(
        model=answer.model,
        count=len(inputs.items),
        num_records=sum(len(one.records) for one in found),
        results=found[:num_shown],
        output_path=str(output.path) if output else None,
        omitted=or_none(omitted),
        resource=await keep(found) if omitted and output is None else None,
        blank_rows=or_none(inputs.num_blank),
        failed=failures(failed, inputs.indices),
    )


def _text(
    item: wire.ExtractedItem, inputs: Inputs, place: int, shape: Shape, *, shows_spans: bool
) -> TextRecords:
    records, not_typed = to_values(shape, item.records)
    spans = [
        Place(field=f"{record}.{field}", text=text, span=[start, end])
        for record, field, text, start, end in spans_of(item.records)
    ]
    return TextRecords(
        index=inputs.indices[place],
        id=inputs.items[place].id,
        source=inputs.source(place),
        records=records,
        spans=spans if shows_spans else None,
        not_typed=not_typed or None,
        truncated=item.truncated or None,
    )


def _line(one: TextRecords, inputs: Inputs) -> bytes:
    place = inputs.indices.index(one.index)
    source = inputs.sources[place] if inputs.sources else None
    line = one.model_copy(update={"source": source})
    return line.model_dump_json(exclude_none=True).encode() + b"\n"


JsonSchema = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object"}),
    Field(
        description="JSON schema of one record: an object of strings, numbers, integers, "
        "booleans, enums, arrays of strings or of flat objects; describe fields."
    ),
]


async def extract_structured(
    ctx: ToolCall,
    schema: JsonSchema,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    threshold: Threshold = None,
    spans: Annotated[bool, Field(description="Also say where values stand.")] = False,
    output_path: Annotated[
        str, Field(max_length=4_096, description="Write all to this new .jsonl file.")
    ] = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, StructuredResult]:
    """Turn texts into records of your JSON schema: invoices, offers, events, contacts.

    Use it to make a table of many mails, pages or notes. Values are copied from the text and
    converted to their type; what cannot be found is null. Needs a GLiNER2 model.

    Returns for each text with any {index, records, spans?, not_typed?}; with output_path a line a
    text there and the first here.
    """
    context = tool_context(ctx)
    shape = read_schema(schema)
    output = find_output(context, output_path, _ENDINGS)
    inputs = await read_inputs(context, texts, path, columns, whole=True)
    result = await extract_records(
        context.client,
        model,
        inputs,
        shape,
        threshold=threshold,
        shows_spans=spans,
        output=output,
        max_tokens=context.list_tokens,
        keep=context.keep,
        progress=context.progress,
    )
    return compact(result)
