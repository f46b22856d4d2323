"""The tool `map_taxonomy`: for every category of one taxonomy the nearest of another."""

from collections.abc import Iterator
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.choice import Choice
from sie_mcp.tools.categories.mapping import Counterpart, map_nodes
from sie_mcp.tools.classification import Classifier, prepare
from sie_mcp.tools.classify_taxonomy import TaxonomyName
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.decision import MAPPINGS
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Model
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import LimitedResult, Result, RoundedScore, compact, num_fitting, or_none
from sie_mcp.tools.taxonomy_files import find_taxonomy

# About twenty minutes on one core.
MAX_PAIRS = 500_000_000
MAX_LEAST_SURE = 20
_COLUMNS: dict[str, ColumnType] = {
    "source_id": "text",
    "source_path": "text",
    "target_id": "text",
    "target_path": "text",
    "probability": "float",
    "unsure": "bool",
    "alternatives": "text",
}


class Mapped(Result):
    """A category of the source and its counterpart; `unsure`: below min_confidence."""

    source_id: str | None = None
    source_path: str
    target_id: str | None = None
    target_path: str
    probability: RoundedScore
    unsure: bool | None = None
    alternatives: list[str] | None = None


class MapResult(LimitedResult):
    """The mapping, or with a file its summary.

    `resumed`: how many categories earlier calls with the same taxonomies and options had mapped.
    """

    model: str
    companion: str | None = None
    source: str
    target: str
    count: int
    mean_probability: RoundedScore
    num_same_path: int | None = None
    num_unsure: int | None = None
    results: list[Mapped] | None = None
    output_path: str | None = None
    resumed: int | None = None
    least_sure: list[Mapped] | None = None


async def map_taxonomy(
    ctx: ToolCall,
    source: TaxonomyName,
    target: TaxonomyName,
    output_path: OutputPath = "",
    top_k: Annotated[int, Field(ge=1, le=10, description="The answer and alternatives.")] = 3,
    min_confidence: Annotated[
        float, Field(ge=0, le=1, description="Less sure: the target's parent, or unsure.")
    ] = 0.0,
    model: Model = "auto",
) -> Annotated[CallToolResult, MapResult]:
    """Map every category of one taxonomy to its counterpart in another.

    Use it to move a catalogue to new categories, or to compare two shops. Give an output_path for
    more than about 50 categories: you then read a summary only.

    Returns rows {source_path, target_path, probability, alternatives}, in a file or listed, and the
    least sure. Limit: 500 million pairs of categories (20,000 to 25,000).
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    from_tree = await find_taxonomy(context, source, argument="source")
    to_tree = await find_taxonomy(context, target, argument="target")
    if (pairs := len(from_tree.paths) * len(to_tree.paths)) > MAX_PAIRS:
        raise InvalidInput(
            f"source and target have {pairs:,} pairs; the limit is {MAX_PAIRS:,}; map a part of "
            "source at a time"
        )
    folder = context.config.cache_dir / "taxonomies"
    store = NodeVectorStore(context.client, folder)
    choice = Choice(top_k, min_confidence, curve=MAPPINGS)
    classifier = await prepare(context.client, store, model, to_tree, choice, context.progress)
    found, resumed = await map_nodes(
        classifier, from_tree, store, folder / "mappings", context.progress
    )
    rows = [
        _mapped(from_tree, node, to_tree, one, min_confidence) for node, one in enumerate(found)
    ]
    result = _result(classifier, from_tree, rows)
    result.resumed = or_none(resumed)
    if output is None:
        result.results = rows[: num_fitting(rows, context.list_tokens)]
        result.omitted = or_none(len(rows) - len(result.results))
    else:
        await anyio.to_thread.run_sync(_write, output, rows)
        result.output_path = str(output.path)
        least = sorted(rows, key=lambda row: row.probability)[:MAX_LEAST_SURE]
        result.least_sure = least[: num_fitting(least, context.list_tokens // 2)]
    return compact(result, context.config.max_result_tokens)


def _mapped(
    source: Taxonomy, node: int, target: Taxonomy, found: Counterpart, min_confidence: float
) -> Mapped:
    best, *others = [target.paths[at][:depth] for at, depth in found.places]
    return Mapped(
        source_id=source.ids[node] if source.ids else None,
        source_path=SEPARATOR.join(source.paths[node]),
        target_id=target.id_of(best),
        target_path=SEPARATOR.join(best),
        probability=found.confidence,
        unsure=found.confidence < min_confidence or None,
        alternatives=[SEPARATOR.join(other) for other in others] or None,
    )


def _result(classifier: Classifier, source: Taxonomy, rows: list[Mapped]) -> MapResult:
    return MapResult(
        model=classifier.model,
        companion=classifier.companion,
        source=source.name,
        target=classifier.taxonomy.name,
        count=len(rows),
        mean_probability=sum(row.probability for row in rows) / len(rows),
        num_same_path=or_none(sum(row.source_path == row.target_path for row in rows)),
        num_unsure=or_none(sum(row.unsure or False for row in rows)),
    )


def _write(path: AllowedPath, rows: list[Mapped]) -> None:
    write_rows(path, _COLUMNS, _lines(rows, is_nested=path.ending == ".jsonl"))


def _lines(rows: list[Mapped], *, is_nested: bool) -> Iterator[dict[str, object]]:
    for row in rows:
        line = row.model_dump(exclude_none=True)
        if not is_nested:
            line["alternatives"] = " | ".join(row.alternatives or [])
        yield line
