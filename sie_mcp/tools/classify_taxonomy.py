"""classify_taxonomy: texts, or every row of a file, into a category tree."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
import numpy as np
import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext, reporter, tool_context
from sie_mcp.tools.embed import vectors_of
from sie_mcp.tools.files import column_texts, read_rows, read_text, write_rows
from sie_mcp.tools.reply import fitting, reply, short
from sie_mcp.tools.taxonomy import BUILT_IN, Taxonomy, built_in, from_file, from_paths
from sie_mcp.tools.taxonomy_vectors import NodeVectors, node_vectors
from sie_mcp.tools.texts import MAX_FILE_TEXTS, ModelName, Texts, to_items

NUM_LEAST_SURE = 5
# Rows of the score matrix at once: 512 x 10,595 float32 are 22 MB.
BLOCK = 512


class Category(pydantic.BaseModel):
    """A category and how well it fits."""

    id: str
    path: str
    score: float


class Classified(pydantic.BaseModel):
    """One text's category."""

    index: int = Field(description="Position in texts, or the file's row, from 0")
    id: str | None = None
    category_id: str
    path: str
    score: float
    unsure: bool | None = Field(default=None, description="The score is under min_score")
    alternatives: list[Category] | None = None


class Output(pydantic.BaseModel):
    """The file that was written."""

    path: str
    rows: int


class ClassifyResult(pydantic.BaseModel):
    """Each text's category, or a summary and a file."""

    model: str
    taxonomy: str
    num_categories: int
    count: int
    results: list[Classified] | None = None
    omitted: int | None = Field(default=None, description="Texts not listed; use output_path")
    num_unsure: int | None = None
    by_top_category: dict[str, int] | None = None
    least_sure: list[Classified] | None = None
    skipped_rows: int | None = Field(default=None, description="Rows without text")
    output: Output | None = None


@dataclass(frozen=True, slots=True)
class Matches:
    """Best categories of each text, best first: node numbers and scores, `(num_texts, k)`."""

    nodes: np.ndarray
    scores: np.ndarray


async def classify_taxonomy(
    ctx: Context[Any, Any],
    texts: Texts | None = None,
    path: Annotated[
        str | None, Field(description="A .csv, .tsv or .jsonl file instead of texts")
    ] = None,
    columns: Annotated[
        list[str] | None,
        Field(description='Columns of that file to read, e.g. ["title", "description"]'),
    ] = None,
    taxonomy: Annotated[
        str | list[str],
        Field(
            description='"shopify" (10,595 product categories), a file (.txt with "A > B > C" a '
            "line, .csv or .json with id and path), or the paths themselves"
        ),
    ] = "shopify",
    top_k: Annotated[int, Field(ge=1, le=20, description="1: the best only")] = 1,
    min_score: Annotated[float | None, Field(description="Mark lower scores as unsure")] = None,
    output_path: Annotated[
        str | None, Field(description="Write all results here (.csv, .jsonl); read a summary")
    ] = None,
    model: ModelName = "auto",
) -> Annotated[CallToolResult, ClassifyResult]:
    """Put texts, such as products or tickets, into a category tree: one category each.

    Use it for any number of texts from one to 10,000, and for trees too large to read: you need not
    know the categories. For many rows give `path` and `columns`, and `output_path`: you then read
    only counts a top category and the least sure rows. A score is a similarity between 0 and 1, not
    a probability; look at low ones yourself, with top_k=5 for alternatives. The first use of a tree
    takes up to a minute to read its categories; call again if it is not done.
    """
    context = tool_context(ctx)
    progress = reporter(ctx)
    items, rows = _read_items(texts, path, columns, context)
    tree = _read_taxonomy(taxonomy, context)
    model, matches = await classify(
        context.client, items, tree, model, top_k, context.config.cache_dir, progress
    )
    found = [
        _classified(place, items, rows, matches, tree, min_score) for place in range(len(items))
    ]
    result = ClassifyResult(
        model=model,
        taxonomy=tree.name,
        num_categories=len(tree.nodes),
        count=len(items),
        num_unsure=sum(bool(one.unsure) for one in found) if min_score is not None else None,
        skipped_rows=_skipped(rows),
    )
    if output_path is not None:
        return reply(_summary(result, found, items, output_path, context))
    kept, omitted = fitting(found, context.config.max_result_tokens)
    return reply(result.model_copy(update={"results": kept, "omitted": omitted or None}))


async def classify(
    client: EngineClient,
    items: list[wire.Item],
    tree: Taxonomy,
    model: str,
    top_k: int,
    cache_dir: Path,
    progress: Progress | None,
) -> tuple[str, Matches]:
    """Return the model's name and the best categories of each item."""
    vectors, response = await vectors_of(client, items, model, progress)
    nodes = await node_vectors(client, tree, response.model, cache_dir, progress)
    matches = await anyio.to_thread.run_sync(best_nodes, vectors, nodes, top_k)
    return response.model, matches


def best_nodes(vectors: np.ndarray, nodes: NodeVectors, top_k: int) -> Matches:
    """Score by the mean of two cosines, with the full path and with the category's own name.

    The path says where a category belongs, the name what it is: together they beat either one
    (evals/LOG.md, entry 3).
    """
    top_k = min(top_k, len(nodes.paths))
    paths, leaves = np.ascontiguousarray(nodes.paths.T), np.ascontiguousarray(nodes.leaves.T)
    chosen, values = [], []
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        scores = (block @ paths + block @ leaves) / 2
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
        chosen.append(best)
        values.append(np.take_along_axis(scores, best, axis=1))
    return Matches(np.concatenate(chosen), np.concatenate(values))


def _read_items(
    texts: Texts | None, path: str | None, columns: list[str] | None, context: ToolContext
) -> tuple[list[wire.Item], list[int] | None]:
    """Return the items, and for a file the row of each."""
    if (texts is None) == (path is None):
        raise InvalidInput("give either texts, or path and columns")
    if path is None:
        return to_items(texts or [], "texts", context), None
    if not columns:
        raise InvalidInput('path needs columns: which to read, e.g. ["title", "description"]')
    found, rows = column_texts(read_rows(path, context), columns, path)
    return to_items(found, path, context, most=MAX_FILE_TEXTS), rows


def _read_taxonomy(taxonomy: str | list[str], context: ToolContext) -> Taxonomy:
    if isinstance(taxonomy, list):
        return from_paths("inline", taxonomy)
    if taxonomy in BUILT_IN:
        return built_in(taxonomy)
    if "." not in taxonomy:
        known = ", ".join(BUILT_IN)
        raise InvalidInput(f"no taxonomy {taxonomy!r}; built in: {known}; or give a file or paths")
    return from_file(taxonomy, read_text(taxonomy, context))


def _classified(
    place: int,
    items: list[wire.Item],
    rows: list[int] | None,
    matches: Matches,
    tree: Taxonomy,
    min_score: float | None,
) -> Classified:
    best = [
        Category(id=tree.nodes[node].id, path=tree.nodes[node].full_path, score=short(score))
        for node, score in zip(matches.nodes[place], matches.scores[place], strict=True)
    ]
    return Classified(
        index=place if rows is None else rows[place],
        id=items[place].id,
        category_id=best[0].id,
        path=best[0].path,
        score=best[0].score,
        unsure=True if min_score is not None and best[0].score < min_score else None,
        alternatives=best[1:] or None,
    )


def _skipped(rows: list[int] | None) -> int | None:
    return None if not rows else (rows[-1] + 1 - len(rows)) or None


def _summary(
    result: ClassifyResult,
    found: list[Classified],
    items: list[wire.Item],
    output_path: str,
    context: ToolContext,
) -> ClassifyResult:
    """Write every result to the file and say what is in it."""
    written = write_rows(
        output_path,
        context,
        (
            {"text": item.text, **one.model_dump(mode="json", exclude={"unsure"})}
            for one, item in zip(found, items, strict=True)
        ),
    )
    tops = Counter(one.path.split(" > ", 1)[0] for one in found)
    least_sure = sorted(found, key=lambda one: (one.score, one.index))[:NUM_LEAST_SURE]
    update = {
        "output": Output(path=str(written), rows=len(found)),
        "by_top_category": dict(tops.most_common()),
        "least_sure": least_sure,
    }
    return result.model_copy(update=update)
