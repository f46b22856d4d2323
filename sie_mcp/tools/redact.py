"""The tool `redact`: texts with masks in place of personal data, in the answer or in a file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InferenceError, InvalidInput
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.detect_pii import Kinds, Threshold, phone_hint
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.outputs import (
    TABLE_ENDINGS,
    ColumnType,
    OutputPath,
    find_output,
    write_new,
    write_rows,
)
from sie_mcp.tools.pii.finding import Finding, find_pii
from sie_mcp.tools.pii.masking import Masks
from sie_mcp.tools.pii.patterns import find_by_pattern, pattern_kinds
from sie_mcp.tools.pii.spans import join_spans
from sie_mcp.tools.result import Result, compact, num_fitting, or_none

_PLAIN_ENDINGS = (".txt", ".md")
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "num_masked": "int",
    "text": "text",
}
# Each leaves fewer digits; more than a second has not been seen.
MAX_PASSES = 8


class Redacted(Result):
    """One text, masked."""

    index: int
    id: str | None = None
    source: str | None = None
    num_masked: int
    text: str


class RedactResult(Result):
    """Masked texts, or where they are; `counts` is how many masks of each kind stand in them."""

    model: str
    patterns: list[str]
    count: int
    counts: dict[str, int]
    results: list[Redacted] | None = None
    output_path: str | None = None
    num_written: int | None = None
    omitted: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def redact_texts(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    kinds: Sequence[str] | None,
    *,
    threshold: float | None,
    output: AllowedPath | None,
    max_tokens: int,
    keep: Keep = keep_nothing,
    progress: Progress,
) -> RedactResult:
    """Mask what is found; texts that could not be read to their end are left out, not copied."""
    finding = await find_pii(client, model, inputs, kinds, threshold=threshold, progress=progress)
    masked = await anyio.to_thread.run_sync(_mask, finding, inputs, not kinds)
    counts = Counter(span.kind for spans in finding.spans.values() for span in spans)
    result = RedactResult(
        model=finding.model,
        patterns=pattern_kinds(),
        count=len(inputs.items),
        counts=dict(sorted(counts.items())),
        blank_rows=or_none(inputs.num_blank),
        failed=failures(finding.failed, inputs.indices),
        hint=phone_hint(),
    )
    if output is not None:
        await anyio.to_thread.run_sync(_write, output, masked, inputs)
        result.output_path, result.num_written = str(output.path), len(masked)
        return result
    shown = list(masked.values())
    result.results = shown[: num_fitting(shown, max_tokens)]
    result.omitted = or_none(len(shown) - len(result.results))
    if result.omitted:
        result.resource = await keep(shown)
        result.hint = "write everything to a file with output_path"
    return result


def _mask(finding: Finding, inputs: Inputs, is_all: bool) -> dict[int, Redacted]:
    """Return the masked texts under their places."""
    texts = inputs.texts
    masks = Masks(texts)
    masked = {}
    for place, spans in finding.spans.items():
        text = masks.redact(texts[place], spans)
        text, num_more = _masked_again(text, masks) if is_all else (text, 0)
        masked[place] = Redacted(
            index=inputs.indices[place],
            id=inputs.items[place].id,
            source=inputs.source(place),
            num_masked=len(spans) + num_more,
            text=text,
        )
    return masked


def _masked_again(text: str, masks: Masks) -> tuple[str, int]:
    """Mask what the masks themselves have brought out; return the text and how many that were.

    They are shorter than what stood there, so that a word can come near to a number it names.

    Raises:
        InferenceError: there is no end to it, so that a mask itself is taken for data.
    """
    num_more = 0
    for _ in range(MAX_PASSES):
        if not (left := find_by_pattern(text)):
            return text, num_more
        spans = join_spans(text, left)
        text, num_more = masks.redact(text, spans), num_more + len(spans)
    raise InferenceError(f"{left[0].kind} is still found after masking; report this")


def _write(path: AllowedPath, masked: Mapping[int, Redacted], inputs: Inputs) -> None:
    """Write a row for each text; of one text alone, the text itself."""
    if path.ending in _PLAIN_ENDINGS:
        content = "".join(one.text for one in masked.values()).encode()
        write_new(path, lambda file: file.write(content))
        return
    write_rows(
        path,
        _COLUMNS,
        (
            one.model_dump() | {"source": inputs.sources[place] if inputs.sources else None}
            for place, one in masked.items()
        ),
    )


def check_output(output: AllowedPath | None, inputs: Inputs) -> None:
    """Refuse a text file for several texts.

    Raises:
        InvalidInput: they would run together.
    """
    if output is not None and output.ending in _PLAIN_ENDINGS and len(inputs.items) > 1:
        raise InvalidInput(
            f"output_path: {len(inputs.items):,} texts go to a {', '.join(TABLE_ENDINGS)} file; "
            f"a {output.ending} file takes one text"
        )


async def redact(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    kinds: Kinds | None = None,
    threshold: Threshold = None,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, RedactResult]:
    """Mask personal data in texts or files: [PERSON_1], [EMAIL_2], [IBAN_1].

    Use it before texts are shared, logged or read by somebody else. The same value has the same
    mask throughout a call, so that who did what can still be followed. To count only: detect_pii.

    Returns the masked texts, or with output_path writes them and returns counts: a row a text, or
    of one text a .txt or .md copy. What fails, or cannot be read to its end, is left out and listed
    in failed, never copied. A model misses some: look through what must not leak.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path, (*TABLE_ENDINGS, *_PLAIN_ENDINGS))
    inputs = await read_inputs(context, texts, path, columns, whole=True)
    check_output(output, inputs)
    result = await redact_texts(
        context.client,
        model,
        inputs,
        kinds,
        threshold=threshold,
        output=output,
        max_tokens=context.list_tokens,
        keep=context.keep,
        progress=context.progress,
    )
    return compact(result)
