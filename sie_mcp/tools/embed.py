"""embed: compare texts by meaning, or write their vectors to a file."""

import base64
import io
import json
from typing import IO, Annotated, Any

import numpy as np
import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InferenceError, InvalidInput
from sie_mcp.tools.context import ToolContext, reporter, tool_context
from sie_mcp.tools.files import column_texts, read_rows, write_atomically
from sie_mcp.tools.reply import CHARS_PER_TOKEN, fitting, reply, short
from sie_mcp.tools.texts import MAX_FILE_TEXTS, ModelName, Texts, to_items


class Pair(pydantic.BaseModel):
    """Two texts and how alike they are: cosine, 1 is the same."""

    a: int = Field(description="Position in texts, from 0")
    b: int = Field(description="Position in compare_to, or in texts when there is none")
    score: float


class Written(pydantic.BaseModel):
    """The file with the vectors."""

    path: str
    shape: list[int]
    dtype: str


class EmbedResult(pydantic.BaseModel):
    """Similarities, a file, or vectors; whichever was asked for."""

    model: str
    count: int
    dims: int
    pairs: list[Pair] | None = Field(default=None, description="Most alike first")
    omitted: int | None = Field(default=None, description="Pairs less alike, not listed")
    file: Written | None = None
    vectors_base64: list[str] | None = Field(default=None, description="float16, little endian")
    truncated: list[int] | None = Field(default=None, description="Texts read in part")


async def embed(
    ctx: Context[Any, Any],
    texts: Texts | None = None,
    path: Annotated[
        str | None, Field(description="A .csv, .tsv or .jsonl file instead of texts")
    ] = None,
    column: Annotated[str | None, Field(description="The column of that file to embed")] = None,
    compare_to: Annotated[
        Texts | None, Field(description="Compare each text with these; default: with each other")
    ] = None,
    top_k: Annotated[int, Field(ge=1, le=1000, description="How many pairs to return")] = 20,
    output_path: Annotated[
        str | None, Field(description="Write the vectors here: .npy or .jsonl")
    ] = None,
    return_vectors: Annotated[
        bool, Field(description="Return raw vectors: for programs, unreadable for you")
    ] = False,
    model: ModelName = "auto",
) -> Annotated[CallToolResult, EmbedResult]:
    """Compare texts by meaning: find near-duplicates or the best match for each, or save vectors.

    Without options it returns the most similar pairs among `texts`; with `compare_to` it returns
    for the texts their best matches there (map old names to new ones, questions to known answers).
    With `output_path` it writes one vector a text to a file and returns its path and shape only.
    To find the passages that answer a question use rerank, which is more exact. Up to 1,000 texts a
    call, 10,000 from a file.
    """
    context = tool_context(ctx)
    items = _items(texts, path, column, context)
    progress = reporter(ctx)
    vectors, response = await vectors_of(context.client, items, model, progress)
    result = EmbedResult(
        model=response.model,
        count=len(items),
        dims=vectors.shape[1],
        truncated=[i for i, one in enumerate(response.items) if one.truncated] or None,
    )
    if output_path is not None:
        written = _write(output_path, vectors, items, context)
        return reply(result.model_copy(update={"file": written}))
    if return_vectors:
        encoded = _encoded(vectors, context)
        return reply(result.model_copy(update={"vectors_base64": encoded}))
    pairs, total = await _pairs(vectors, compare_to, response.model, context, progress, top_k)
    kept, _ = fitting(pairs, context.config.max_result_tokens)
    omitted = total - len(kept) or None
    return reply(result.model_copy(update={"pairs": kept, "omitted": omitted}))


async def vectors_of(
    client: EngineClient,
    items: list[wire.Item],
    model: str,
    progress: Progress | None,
    *,
    is_query: bool = False,
) -> tuple[np.ndarray, wire.EncodeResponse]:
    """Return unit vectors, float32 `(len(items), dims)`.

    Raises:
        InferenceError: the model failed for an item.
    """
    params = wire.EncodeParams(
        output_types=["dense"], options=wire.EncodeOptions(normalize=True, is_query=is_query)
    )
    response = await client.encode(model, items, params, progress=progress)
    rows = []
    for index, item in enumerate(response.items):
        if item.dense is None:
            reason = item.error.message if item.error else "no vector"
            raise InferenceError(f"text {index}: {reason}; leave it out and call again")
        rows.append(item.dense.values)
    return np.stack(rows), response


def _items(
    texts: Texts | None, path: str | None, column: str | None, context: ToolContext
) -> list[wire.Item]:
    if (texts is None) == (path is None):
        raise InvalidInput("give either texts, or path and column")
    if path is None:
        return to_items(texts or [], "texts", context)
    if column is None:
        raise InvalidInput("path needs column: the name of the column to embed")
    found, _ = column_texts(read_rows(path, context), [column], path)
    return to_items(found, path, context, most=MAX_FILE_TEXTS)


async def _pairs(
    vectors: np.ndarray,
    compare_to: Texts | None,
    model: str,
    context: ToolContext,
    progress: Progress,
    top_k: int,
) -> tuple[list[Pair], int]:
    """Return the best pairs, and how many there are in all."""
    if compare_to is not None:
        others = to_items(compare_to, "compare_to", context)
        theirs, _ = await vectors_of(context.client, others, model, progress)
        best = vectors @ theirs.T
        # One match a text before second matches: an agent asks "which one is it".
        order = [(row, int(best[row].argmax())) for row in range(len(best))]
        pairs = [Pair(a=a, b=b, score=short(best[a, b])) for a, b in order]
        pairs.sort(key=lambda one: (-one.score, one.a, one.b))
        return pairs[:top_k], len(pairs)
    if len(vectors) > MAX_FILE_TEXTS // 2:
        raise InvalidInput(
            f"{len(vectors):,} texts have too many pairs; give compare_to or output_path"
        )
    similar = vectors @ vectors.T
    a, b = np.triu_indices(len(vectors), k=1)
    values = similar[a, b]
    order_of = np.argsort(-values, kind="stable")[:top_k]
    found = [Pair(a=int(a[i]), b=int(b[i]), score=short(values[i])) for i in order_of]
    return found, len(values)


def _encoded(vectors: np.ndarray, context: ToolContext) -> list[str]:
    half = vectors.astype("<f2")
    encoded = [base64.b64encode(row.tobytes()).decode("ascii") for row in half]
    most = context.config.max_result_tokens * CHARS_PER_TOKEN
    if sum(len(one) for one in encoded) > most:
        fit = max(most // len(encoded[0]), 1)
        raise InvalidInput(
            f"{len(encoded)} vectors do not fit in an answer (about {fit} do); use output_path"
        )
    return encoded


def _write(
    path: str, vectors: np.ndarray, items: list[wire.Item], context: ToolContext
) -> Written:
    def write(file: IO[bytes]) -> None:
        if path.lower().endswith(".npy"):
            buffer = io.BytesIO()
            np.save(buffer, vectors, allow_pickle=False)
            file.write(buffer.getbuffer())
            return
        for index, (vector, item) in enumerate(zip(vectors, items, strict=True)):
            row = {"index": index, "id": item.id, "vector": [round(float(x), 6) for x in vector]}
            file.write(json.dumps(row).encode() + b"\n")

    real = write_atomically(path, context, (".npy", ".jsonl"), write)
    return Written(path=str(real), shape=list(vectors.shape), dtype="float32")
