"""The tool `embed`: compare texts by meaning, or hand their vectors to a file or a program."""

from dataclasses import dataclass
from typing import Annotated, Literal

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Inputs, Model, Path, Texts, read_inputs
from sie_mcp.tools.outputs import find_output
from sie_mcp.tools.result import LimitedResult, Result, RoundedScore, compact, num_fitting, or_none
from sie_mcp.tools.similarity import top_matches, top_pairs
from sie_mcp.tools.vector_files import ENDINGS, Vector, VectorFormat, as_entries, write_vectors
from sie_mcp.tools.vectors import Vectors, embed_texts

InputType = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """What to do with the vectors; without a file or a format the texts are compared."""

    top_k: int = 5
    is_query: bool = False
    vector_format: VectorFormat | None = None
    output: AllowedPath | None = None
    max_tokens: int = 4_000
    keep: Keep = keep_nothing


class Pair(Result):
    """Two of the texts and their cosine."""

    a: int
    b: int
    a_source: str | None = None
    b_source: str | None = None
    score: RoundedScore


class Near(Result):
    """One of the texts compared with."""

    index: int
    score: RoundedScore


class Match(Result):
    """A text and what is nearest to it, best first."""

    index: int
    id: str | None = None
    source: str | None = None
    nearest: list[Near]


class EmbedResult(LimitedResult):
    """What was asked for: `matches` with compare_to, else `pairs`; a file; or `vectors`."""

    model: str
    count: int
    dims: int
    num_truncated: int | None = None
    pairs: list[Pair] | None = None
    matches: list[Match] | None = None
    vectors: list[Vector] | None = None
    output_path: str | None = None
    shape: list[int] | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def embed_inputs(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    others: Inputs | None,
    options: EmbedOptions,
    progress: Progress,
) -> EmbedResult:
    """Encode the texts, then compare, write or return them."""
    vectors = await embed_texts(
        client, model, inputs.texts, is_query=options.is_query, progress=progress
    )
    result = EmbedResult(
        model=vectors.model,
        count=len(inputs.items),
        dims=vectors.values.shape[1],
        num_truncated=or_none(len(vectors.truncated)),
        blank_rows=or_none(inputs.num_blank),
        failed=failures(vectors.failed, inputs.indices),
    )
    if options.output is not None:
        await progress(0, 1, f"writing {options.output.name}")
        result.shape = await anyio.to_thread.run_sync(
            write_vectors, options.output, vectors, inputs
        )
        result.output_path = str(options.output.path)
    if options.vector_format is not None:
        _add_vectors(result, as_entries(vectors, inputs, options.vector_format), options)
    if others is not None:
        found = await embed_texts(client, vectors.model, others.texts, progress=progress)
        matches = await anyio.to_thread.run_sync(
            _matches, vectors, inputs, found, others, options.top_k
        )
        await _add_matches(result, matches, options)
    elif options.output is None and options.vector_format is None:
        pairs = await anyio.to_thread.run_sync(top_pairs, vectors.values, options.top_k)
        result.pairs = [_pair(inputs, vectors.kept[i], vectors.kept[j], s) for i, j, s in pairs]
    return result


def _pair(inputs: Inputs, a: int, b: int, score: float) -> Pair:
    return Pair(
        a=inputs.indices[a],
        b=inputs.indices[b],
        a_source=inputs.source(a),
        b_source=inputs.source(b),
        score=score,
    )


def _matches(
    vectors: Vectors, inputs: Inputs, found: Vectors, others: Inputs, top_k: int
) -> list[Match]:
    indices, scores = top_matches(vectors.values, found.values, min(top_k, len(found.kept)))
    return [
        Match(
            index=inputs.indices[place],
            id=inputs.items[place].id,
            source=inputs.source(place),
            nearest=[
                Near(index=others.indices[found.kept[other]], score=score)
                for other, score in zip(row, row_scores, strict=True)
            ],
        )
        for place, row, row_scores in zip(vectors.kept, indices, scores, strict=True)
    ]


async def _add_matches(result: EmbedResult, matches: list[Match], options: EmbedOptions) -> None:
    num_shown = num_fitting(matches, options.max_tokens)
    result.matches = matches[:num_shown]
    if num_shown < len(matches):
        result.omitted = len(matches) - num_shown
        result.resource = await options.keep(matches)
        result.hint = "use a smaller top_k, or fewer texts in a call"


def _add_vectors(result: EmbedResult, entries: list[Vector], options: EmbedOptions) -> None:
    num_shown = num_fitting(entries, options.max_tokens)
    result.vectors = entries[:num_shown]
    if num_shown < len(entries):
        result.omitted = len(entries) - num_shown
        result.hint = "write all of them to a file with output_path; base64_float16 is shorter"


async def embed(
    ctx: ToolCall,
    texts: Annotated[Texts, Field(description="Texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    compare_to: Annotated[
        Texts, Field(description="Find for each text the nearest of these.")
    ] = [],  # noqa: B006
    top_k: Annotated[int, Field(ge=1, le=100, description="Pairs, or matches a text.")] = 5,
    input_type: Annotated[
        InputType, Field(description="What `texts` are; compare_to are documents.")
    ] = "document",
    output_path: Annotated[
        str,
        Field(
            max_length=4_096, description="Write vectors to this new .npy, .jsonl or .parquet file."
        ),
    ] = "",
    return_vectors: Annotated[
        bool, Field(description="Send vectors back: long, and of no use to read.")
    ] = False,
    vector_format: VectorFormat = "json",
    model: Model = "auto",
) -> Annotated[CallToolResult, EmbedResult]:
    """Compare texts by meaning, or turn them into vectors in a file for a program to use.

    Use it to find near-duplicates or paraphrases among texts, to match two lists (compare_to), or
    to prepare vectors for clustering or search in code (output_path). Not to find the passages
    that answer a question (rerank is more exact) nor to pick categories (classify_taxonomy).

    Returns, with compare_to, the nearest of those for each text; otherwise the top_k most similar
    pairs {a, b, score} of the texts. Scores are cosines; indices count from 0. With output_path:
    the path and shape; row i is text i (NaN where a text is empty or failed). Limit: 1,000 texts,
    10,000 rows in files.
    """
    context = tool_context(ctx)
    inputs = await read_inputs(context, texts, path, columns)
    others = (
        await read_inputs(context, compare_to, "", [], argument="compare_to")
        if compare_to
        else None
    )
    output = find_output(context, output_path, ENDINGS)
    options = EmbedOptions(
        top_k=top_k,
        is_query=input_type == "query",
        vector_format=vector_format if return_vectors else None,
        output=output,
        max_tokens=context.list_tokens,
        keep=context.keep,
    )
    return compact(
        await embed_inputs(context.client, model, inputs, others, options, context.progress),
        context.config.max_result_tokens,
    )
