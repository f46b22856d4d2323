"""The tool `extract_relations`: who does what to whom, as triples or as a graph of all files."""

from collections import Counter
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.detect_pii import Threshold
from sie_mcp.tools.failures import Failures, failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, as_list, read_inputs
from sie_mcp.tools.outputs import (
    TABLE_ENDINGS,
    ColumnType,
    OutputPath,
    Rows,
    find_output,
    write_new,
    write_rows,
)
from sie_mcp.tools.result import (
    SCORE_DIGITS,
    Result,
    RoundedScore,
    compact,
    num_fitting,
    or_none,
)
from sie_mcp.tools.structured.given import link_found
from sie_mcp.tools.structured.graphs import GRAPH_ENDINGS, Graph, write_graph
from sie_mcp.tools.structured.models import choose_model, needs_spans
from sie_mcp.wire_fields import Text
from sie_mcp.wire_structure import MAX_FIELDS, Name, Structure

SAMPLE_TOKENS = 100  # what is shown of a list that is in a file
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "head": "text",
    "relation": "text",
    "tail": "text",
    "score": "float",
    "head_start": "int",
    "head_end": "int",
    "tail_start": "int",
    "tail_end": "int",
}


class Triple(Result):
    """One relation; spans are [head start, head end, tail start, tail end] in characters."""

    index: int
    source: str | None = None
    head: str
    relation: str
    tail: str
    score: RoundedScore
    spans: list[int] | None = None


class RelationsResult(Result):
    """Triples in the order of the texts, and how many of each relation there are."""

    model: str
    count: int
    counts: dict[str, int]
    results: list[Triple]
    output_path: str | None = None
    graph_path: str | None = None
    num_nodes: int | None = None
    num_edges: int | None = None
    omitted: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None


async def find_relations(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    relations: dict[str, str],
    *,
    entities: list[str],
    threshold: float | None,
    output: AllowedPath | None,
    graph_output: AllowedPath | None,
    max_tokens: int,
    keep: Keep = keep_nothing,
    progress: Progress,
) -> RelationsResult:
    """Find triples, write them and their graph where asked to, and keep what fits."""
    card = await choose_model(client, model, "relations", progress)
    wanted = Structure(entities=dict.fromkeys(entities, ""), relations=relations)
    answer = await _ask(client, card, inputs.items, wanted, threshold, progress)
    failed = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(failed, len(inputs.items))
    found = [
        _triple(one, inputs, place)
        for place, item in enumerate(answer.items)
        for one in item.relations
    ]
    result = RelationsResult(
        model=answer.model,
        count=len(inputs.items),
        counts=dict(sorted(Counter(one.relation for one in found).items())),
        results=[],
        blank_rows=or_none(inputs.num_blank),
        failed=failures(failed, inputs.indices),
    )
    if output is not None:
        await anyio.to_thread.run_sync(write_rows, output, _COLUMNS, _rows(answer, inputs))
        result.output_path = str(output.path)
    if graph_output is not None:
        await _add_graph(result, answer, inputs, graph_output)
    is_written = output is not None or graph_output is not None
    num_shown = num_fitting(found, min(max_tokens, SAMPLE_TOKENS) if is_written else max_tokens)
    result.results = found[:num_shown]
    result.omitted = or_none(len(found) - num_shown)
    if result.omitted and not is_written:
        result.resource = await keep(found)
    return result


async def _ask(
    client: EngineClient,
    card: wire.ModelCard,
    items: list[wire.Item],
    wanted: Structure,
    threshold: float | None,
    progress: Progress,
) -> wire.ExtractResponse:
    if needs_spans(card):
        return await link_found(
            client, card.name, items, wanted, threshold=threshold, progress=progress
        )
    options = wire.ExtractOptions(threshold=threshold, structure=wanted)
    params = wire.ExtractParams(options=options)
    return await client.extract(card.name, items, params, progress=progress)


async def _add_graph(
    result: RelationsResult, answer: wire.ExtractResponse, inputs: Inputs, path: AllowedPath
) -> None:
    graph = Graph()
    for place, item in enumerate(answer.items):
        source = inputs.sources[place] if inputs.sources else str(inputs.indices[place])
        for one in item.relations:
            graph.add(one.head, one.relation, one.tail, one.score, source)
    await anyio.to_thread.run_sync(
        write_new, path, lambda file: write_graph(file, graph, path.ending)
    )
    result.graph_path = str(path.path)
    result.num_nodes, result.num_edges = len(graph.names), len(graph.edges)


def _triple(one: wire.Relation, inputs: Inputs, place: int) -> Triple:
    spans = (one.head_start, one.head_end, one.tail_start, one.tail_end)
    known = [place for place in spans if place is not None]
    return Triple(
        index=inputs.indices[place],
        source=inputs.source(place),
        head=one.head,
        relation=one.relation,
        tail=one.tail,
        score=one.score,
        spans=known if len(known) == len(spans) else None,
    )


def _rows(answer: wire.ExtractResponse, inputs: Inputs) -> Rows:
    """Yield a row for each triple, in the order of the texts."""
    for place, item in enumerate(answer.items):
        for one in item.relations:
            yield {
                **one.model_dump(),
                "index": inputs.indices[place],
                "id": inputs.items[place].id,
                "source": inputs.sources[place] if inputs.sources else None,
                "score": round(one.score, SCORE_DIGITS),
            }


def _as_relations(value: object) -> object:
    names = as_list(value)
    if isinstance(names, list) and all(isinstance(one, str) for one in names):
        return dict.fromkeys(names, "")
    return names


Entities = Annotated[list[Name], BeforeValidator(as_list)]
Relations = Annotated[
    dict[Name, Text],
    BeforeValidator(_as_relations, json_schema_input_type=list[str] | dict[str, str]),
    Field(description='Relations, or {name: description}, such as "works for".'),
]


async def extract_relations(
    ctx: ToolCall,
    relations: Relations,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    entities: Annotated[Entities, Field(description="What to link; GLiNER-relex needs it.")] = [],  # noqa: B006
    threshold: Threshold = None,
    output_path: OutputPath = "",
    graph_path: Annotated[
        str,
        Field(max_length=4_096, description="New .graphml or .jsonl file: one graph."),
    ] = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, RelationsResult]:
    """Find relations of your naming in texts: (head, relation, tail), with places.

    Use it for who works for whom, what is part of what; with a pattern as path and graph_path for
    a knowledge graph of a folder, entities merged by name. Model: GLiNER2 or -relex.

    Returns {index, head, relation, tail, score, spans} and counts by relation.
    """
    context = tool_context(ctx)
    if not 0 < len(relations) <= MAX_FIELDS:
        raise InvalidInput(f"relations has {len(relations)} entries; 1 to {MAX_FIELDS} work")
    if len(entities) > MAX_FIELDS:
        raise InvalidInput(f"entities has {len(entities)} entries; at most {MAX_FIELDS} work")
    output = find_output(context, output_path, TABLE_ENDINGS)
    graph_output = find_output(context, graph_path, GRAPH_ENDINGS)
    if output and graph_output and output.path == graph_output.path:
        raise InvalidInput(f"output_path and graph_path are both {output.name}; name two files")
    inputs = await read_inputs(context, texts, path, columns, whole=True)
    result = await find_relations(
        context.client,
        model,
        inputs,
        relations,
        entities=entities,
        threshold=threshold,
        output=output,
        graph_output=graph_output,
        max_tokens=context.list_tokens,
        keep=context.keep,
        progress=context.progress,
    )
    return compact(result)
