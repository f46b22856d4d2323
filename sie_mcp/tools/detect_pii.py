"""The tool `detect_pii`: how much personal data texts hold, of which kinds, and where."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, as_list, read_inputs
from sie_mcp.tools.outputs import ColumnType, OutputPath, Rows, find_output, write_rows
from sie_mcp.tools.pii.finding import Finding, find_pii
from sie_mcp.tools.pii.patterns import PHONE_EXTRA, finds_phones, pattern_kinds
from sie_mcp.tools.pii.spans import PiiSpan
from sie_mcp.tools.result import (
    SCORE_DIGITS,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
)

MAX_SPANS = 5
MAX_VALUES = 5
SAMPLE_TOKENS = 200  # what is shown of a list that is in a file
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "kind": "text",
    "start": "int",
    "end": "int",
    "score": "float",
    "checked": "bool",
}


class KindFound(Result):
    """One kind in one text: the first spans, how many values differ, and the least score."""

    kind: str
    count: int
    distinct: int
    spans: list[list[int]]
    more_spans: int | None = None
    score: RoundedScore
    values: list[str] | None = None


class TextPii(Result):
    """What one text holds."""

    index: int
    id: str | None = None
    source: str | None = None
    found: list[KindFound]


class PiiResult(Result):
    """Texts that hold personal data, and the counts of all. `patterns`: kinds checked by form."""

    model: str
    patterns: list[str]
    count: int
    num_with: int
    counts: dict[str, int]
    results: list[TextPii]
    output_path: str | None = None
    num_written: int | None = None
    omitted: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def detect(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    kinds: Sequence[str] | None,
    *,
    threshold: float | None,
    shows_values: bool,
    output: AllowedPath | None,
    max_tokens: int,
    keep: Keep = keep_nothing,
    progress: Progress,
) -> PiiResult:
    """Find, count by kind, and keep what fits; with `output` a sample of it."""
    finding = await find_pii(client, model, inputs, kinds, threshold=threshold, progress=progress)
    texts = inputs.texts
    found = [
        _text(place, spans, inputs, texts[place], shows_values=shows_values)
        for place, spans in finding.spans.items()
        if spans
    ]
    counts = Counter(span.kind for spans in finding.spans.values() for span in spans)
    if output is not None:
        rows = _rows(finding, inputs, texts, shows_values=shows_values)
        columns = {**_COLUMNS, "value": "text"} if shows_values else _COLUMNS
        await anyio.to_thread.run_sync(write_rows, output, columns, rows)
        max_tokens = min(max_tokens, SAMPLE_TOKENS)
    num_shown = num_fitting(found, max_tokens)
    omitted = len(found) - num_shown
    return PiiResult(
        model=finding.model,
        patterns=pattern_kinds(),
        count=len(inputs.items),
        num_with=len(found),
        counts=dict(sorted(counts.items())),
        results=found[:num_shown],
        output_path=str(output.path) if output else None,
        num_written=counts.total() if output else None,
        omitted=or_none(omitted),
        resource=await keep(found) if omitted and output is None else None,
        blank_rows=or_none(inputs.num_blank),
        failed=failures(finding.failed, inputs.indices),
        hint=phone_hint(),
    )


def phone_hint() -> str | None:
    """Say what is missing for phone numbers to be checked by their form."""
    if finds_phones():
        return None
    return f"phone numbers are found by the model only; pip install '{PHONE_EXTRA}' checks them"


def _text(
    place: int, spans: list[PiiSpan], inputs: Inputs, text: str, *, shows_values: bool
) -> TextPii:
    by_kind: dict[str, list[PiiSpan]] = {}
    for span in spans:
        by_kind.setdefault(span.kind, []).append(span)
    return TextPii(
        index=inputs.indices[place],
        id=inputs.items[place].id,
        source=inputs.source(place),
        found=[
            _kind(kind, own, text, shows_values=shows_values)
            for kind, own in sorted(by_kind.items())
        ],
    )


def _kind(kind: str, spans: list[PiiSpan], text: str, *, shows_values: bool) -> KindFound:
    values = list(dict.fromkeys(text[span.start : span.end] for span in spans))
    return KindFound(
        kind=kind,
        count=len(spans),
        distinct=len({value.casefold() for value in values}),
        spans=[[span.start, span.end] for span in spans[:MAX_SPANS]],
        more_spans=or_none(len(spans[MAX_SPANS:])),
        score=min(span.score for span in spans),
        values=values[:MAX_VALUES] if shows_values else None,
    )


def _rows(finding: Finding, inputs: Inputs, texts: list[str], *, shows_values: bool) -> Rows:
    """Yield a row for each finding, in the order of the texts."""
    for place, spans in finding.spans.items():
        for span in spans:
            yield {
                "index": inputs.indices[place],
                "id": inputs.items[place].id,
                "source": inputs.sources[place] if inputs.sources else None,
                "kind": span.kind,
                "start": span.start,
                "end": span.end,
                "score": round(span.score, SCORE_DIGITS),
                "checked": span.by_pattern,
                "value": texts[place][span.start : span.end] if shows_values else None,
            }


Kinds = Annotated[
    list[str],
    BeforeValidator(as_list),
    Field(
        max_length=50,
        description="Only these: PERSON, EMAIL, ADDRESS, IBAN …",
    ),
]
Threshold = Annotated[
    float | None, Field(ge=0, le=1, description="Least score; default: the model's own.")
]


async def detect_pii(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    kinds: Kinds | None = None,
    threshold: Threshold = None,
    show_values: Annotated[bool, Field(description="Also return the values themselves.")] = False,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, PiiResult]:
    """Say which personal data texts or files hold, where and how much, without showing it.

    Use it before files are shared, logged or sent away. A model finds names, addresses and numbers;
    e-mails, IBANs, cards, IPs and phones are also found by form and checksum. To mask: redact.

    Returns for each text that has any {index, source?, found: [{kind, count, distinct, spans}]},
    and counts by kind; values only with show_values. A model misses some: no proof of absence.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    inputs = await read_inputs(context, texts, path, columns, whole=True)
    result = await detect(
        context.client,
        model,
        inputs,
        kinds,
        threshold=threshold,
        shows_values=show_values,
        output=output,
        max_tokens=context.list_tokens,
        keep=context.keep,
        progress=context.progress,
    )
    return compact(result)
