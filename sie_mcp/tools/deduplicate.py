"""The tool `deduplicate`: exact and near duplicates among rows, files or passages."""

from typing import Annotated, Literal

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.tools.collection import (
    Collection,
    Gaps,
    Place,
    Source,
    SourcePath,
    Unit,
    UnitChoice,
    read_collection,
)
from sie_mcp.tools.context import Keep, ToolCall, tool_context
from sie_mcp.tools.duplicate_files import write_groups, write_kept
from sie_mcp.tools.duplicate_groups import Groups, KeepRule, find_groups
from sie_mcp.tools.inputs import Columns, Model, PlainTexts
from sie_mcp.tools.outputs import OutputPath, find_output
from sie_mcp.tools.passages import snippet
from sie_mcp.tools.result import (
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
    result_tokens,
)

# What is listed: groups, duplicates of each, and the least similar pairs.
MAX_GROUPS, MAX_MEMBERS, MAX_UNSURE = 20, 10, 3
SNIPPET_CHARS = 160


class Duplicate(Place):
    """A text that is dropped, and its cosine to the one that is kept."""

    similarity: RoundedScore


class Group(Result):
    """One kept text and its duplicates; `more`: how many of them are not listed."""

    keep: Place
    duplicates: list[Duplicate]
    more: int | None = None


class Unsure(Result):
    """One of the least similar pairs, to judge the threshold by."""

    keep: str
    duplicate: str
    similarity: RoundedScore


class DeduplicateResult(Gaps):
    """Counts, and the largest groups first."""

    model: str
    unit: Unit
    count: int
    num_kept: int
    num_exact: int
    num_near: int
    num_groups: int
    groups: list[Group]
    least_similar: list[Unsure] | None = None
    output_path: str | None = None
    num_written: int | None = None
    omitted: int | None = None
    resource: str | None = None
    hint: str | None = None


def describe(collection: Collection, groups: Groups) -> list[Group]:
    """Describe all groups, the largest first."""
    return [
        Group(
            keep=collection.place(kept),
            duplicates=[
                Duplicate(similarity=groups.similarity[one], **collection.place(one).model_dump())
                for one in members[:MAX_MEMBERS]
            ],
            more=or_none(len(members) - MAX_MEMBERS) if len(members) > MAX_MEMBERS else None,
        )
        for kept, members in groups.members().items()
    ]


def least_similar(collection: Collection, groups: Groups) -> list[Unsure]:
    """Show the pairs that a higher threshold would part first."""
    near = [number for number, kept in enumerate(groups.kept) if kept != number]
    near = [number for number in near if groups.similarity[number] < 1]
    near.sort(key=lambda number: (groups.similarity[number], number))
    return [
        Unsure(
            keep=snippet(collection.texts[groups.kept[number]], SNIPPET_CHARS),
            duplicate=snippet(collection.texts[number], SNIPPET_CHARS),
            similarity=groups.similarity[number],
        )
        for number in near[:MAX_UNSURE]
    ]


async def _answer(
    collection: Collection, groups: Groups, max_tokens: int, keep: Keep
) -> DeduplicateResult:
    described = describe(collection, groups)
    unsure = least_similar(collection, groups)
    left = max_tokens - sum(map(result_tokens, unsure))
    shown = described[: num_fitting(described[:MAX_GROUPS], left)]
    num_kept = len(set(groups.kept.tolist()))
    omitted = len(described) - len(shown)
    return DeduplicateResult(
        model=collection.model,
        unit=collection.unit,
        count=len(collection.texts),
        num_kept=num_kept,
        num_exact=groups.num_exact,
        num_near=len(collection.texts) - num_kept - groups.num_exact,
        num_groups=len(described),
        groups=shown,
        least_similar=unsure or None,
        omitted=or_none(omitted),
        resource=await keep(described) if omitted else None,
        hint="output_path writes all of them to a file" if omitted else None,
        **collection.gaps.model_dump(),
    )


async def deduplicate(
    ctx: ToolCall,
    texts: PlainTexts = [],  # noqa: B006
    path: SourcePath = "",
    columns: Columns = [],  # noqa: B006
    unit: UnitChoice = None,
    threshold: Annotated[
        float, Field(ge=0.5, le=1, description="Least cosine of duplicates.")
    ] = 0.95,
    keep: Annotated[KeepRule, Field(description="Which of a group to keep.")] = "first",
    same_numbers: Annotated[
        bool, Field(description="False: texts may differ in numbers (sizes, dates).")
    ] = True,
    output_path: OutputPath = "",
    write: Annotated[
        Literal["kept", "all"],
        Field(description="kept: the table without duplicates; all: group numbers."),
    ] = "kept",
    model: Model = "auto",
) -> Annotated[CallToolResult, DeduplicateResult]:
    """Find texts that say the same, and which of them to keep.

    Use it on rows, texts, or files or passages of a folder, before you read or label them. What is
    dropped is as similar as the threshold to what is kept for it.

    Returns counts, the largest groups {keep, duplicates: [{index | path, similarity}]}, and the
    least similar pairs: judge the threshold by them. Limit: 1,000 texts in a call, 10,000 rows,
    50,000 passages.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    progress = context.progress
    collection = await read_collection(context, Source(texts, path, columns, unit), model, progress)
    groups = await find_groups(
        collection, threshold, keep, same_numbers=same_numbers, progress=progress
    )
    result = await _answer(collection, groups, context.list_tokens, context.keep)
    if output is not None:
        result.output_path = str(output.path)
        result.num_written = await anyio.to_thread.run_sync(
            lambda: (
                write_groups(output, collection, groups)
                if write == "all"
                else write_kept(context, path, output, collection, groups)
            )
        )
    return compact(result)
