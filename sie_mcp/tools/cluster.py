"""The tool `cluster`: what many texts are about, in groups with words and examples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import anyio.to_thread
import numpy as np
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.client import Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools import grouping
from sie_mcp.tools.cluster_words import distinguishing_words
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
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Columns, Model, PlainTexts
from sie_mcp.tools.long_work import in_thread
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.passages import snippet
from sie_mcp.tools.result import Result, RoundedScore, compact, num_fitting, or_none

MAX_WORDS = 8
SNIPPET_CHARS = 160
NOISE = -1
_COLUMNS: dict[str, ColumnType] = {
    "cluster": "int",
    "similarity": "float",
    "index": "int",
    "id": "text",
    "source": "text",
    "path": "text",
    "lines": "text",
    "pages": "text",
    "paragraphs": "text",
    "text": "text",
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters by size, the largest first, numbered from 0.

    Attributes:
        labels: int64 `(num_texts,)`, each text's cluster, `NOISE` for none.
        similarity: float32 `(num_texts,)`, the cosine to the centre of the cluster it is nearest.
        separation: The mean silhouette, -1 to 1: how far apart they are; None for one alone.
    """

    labels: np.ndarray
    similarity: np.ndarray
    separation: float | None

    @property
    def num(self) -> int:
        """How many clusters there are."""
        return int(self.labels.max()) + 1

    def members(self, number: int) -> list[int]:
        """Return a cluster's texts, the most central first."""
        found = np.flatnonzero(self.labels == number)
        return [int(one) for one in found[np.argsort(-self.similarity[found], kind="stable")]]


class Example(Place):
    """A central text of a cluster."""

    text: str


class Cluster(Result):
    """One cluster: words that set it apart, and its most central texts."""

    cluster: int
    size: int
    words: list[str]
    examples: list[Example]


class ClusterResult(Gaps):
    """The largest clusters first; `separation`, -1 to 1: below 0.1 they run into each other."""

    model: str
    unit: Unit
    count: int
    num_clusters: int
    separation: RoundedScore | None = None
    clusters: list[Cluster]
    num_noise: int | None = None
    output_path: str | None = None
    num_written: int | None = None
    omitted: int | None = None
    resource: str | None = None
    hint: str | None = None


async def find_clusters(
    vectors: np.ndarray, num_clusters: int | None, progress: Progress, *, noise: bool = True
) -> Clusters:
    """Cluster float32 `(num_vectors, dims)` of length 1 into some, or a fitting, number."""
    if num_clusters is None:
        num_clusters = await _choose(vectors, progress)
    await progress(0, 1, f"finding {num_clusters} clusters")
    found = await in_thread(grouping.group, vectors, num_clusters, starts=grouping.STARTS)
    return await in_thread(_ordered, vectors, found, noise)


async def _choose(vectors: np.ndarray, progress: Progress) -> int:
    """Try several numbers of clusters on a sample."""
    some = grouping.sample(vectors)
    tried = grouping.candidates(len(some))
    values: dict[int, float] = {}
    for place, num in enumerate(tried):
        await progress(place, len(tried), "finding how many clusters there are")
        found = await in_thread(grouping.group, some, num)
        values[num] = float((await in_thread(grouping.silhouette, some, found.labels)).mean())
    return grouping.choose(values)


def _ordered(vectors: np.ndarray, found: grouping.Grouping, noise: bool) -> Clusters:
    """Number the clusters by size, then by their first text, and set apart what fits none."""
    labels = found.labels.copy()
    separation = (
        float(grouping.silhouette(vectors, labels).mean()) if len(set(labels)) > 1 else None
    )
    if noise:
        labels[found.similarity < grouping.noise_limit(found.similarity)] = NOISE
    numbers, firsts, sizes = np.unique(
        labels[labels != NOISE], return_index=True, return_counts=True
    )
    new = np.full(len(found.centres) + 1, NOISE)
    new[numbers[np.lexsort((firsts, -sizes))]] = np.arange(len(numbers))
    return Clusters(new[labels], found.similarity, separation)


def describe(collection: Collection, clusters: Clusters, num_examples: int) -> list[Cluster]:
    """Describe all clusters, the largest first."""
    labels = clusters.labels.tolist()
    words = distinguishing_words(collection.texts, labels, clusters.num, MAX_WORDS)
    described = []
    for number in range(clusters.num):
        members = clusters.members(number)
        # Equal texts are one example.
        central = {snippet(collection.texts[one], SNIPPET_CHARS): one for one in members[::-1]}
        shown = list(reversed(central.items()))[:num_examples]
        examples = [Example(text=text, **collection.place(one).model_dump()) for text, one in shown]
        described.append(
            Cluster(cluster=number, size=len(members), words=words[number], examples=examples)
        )
    return described


def _write(path: AllowedPath, collection: Collection, clusters: Clusters) -> int:
    """Write every text with its cluster; return the number of rows."""

    def entries() -> Iterator[dict[str, Any]]:
        for number, text in enumerate(collection.texts):
            yield collection.place(number).model_dump() | {
                "cluster": int(clusters.labels[number]),
                "similarity": round(float(clusters.similarity[number]), 4),
                "text": text,
            }

    write_rows(path, _COLUMNS, entries())
    return len(collection.texts)


async def _answer(
    collection: Collection, clusters: Clusters, num_examples: int, max_tokens: int, keep: Keep
) -> ClusterResult:
    described = await in_thread(describe, collection, clusters, num_examples)
    shown = described[: num_fitting(described, max_tokens)]
    omitted = len(described) - len(shown)
    return ClusterResult(
        model=collection.model,
        unit=collection.unit,
        count=len(collection.texts),
        num_clusters=clusters.num,
        separation=clusters.separation,
        clusters=shown,
        num_noise=or_none(int(np.count_nonzero(clusters.labels == NOISE))),
        omitted=or_none(omitted),
        resource=await keep(described) if omitted else None,
        hint="fewer examples or clusters are shorter; output_path writes every text's cluster"
        if omitted
        else None,
        **collection.gaps.model_dump(),
    )


async def cluster(
    ctx: ToolCall,
    texts: PlainTexts = [],  # noqa: B006
    path: SourcePath = "",
    columns: Columns = [],  # noqa: B006
    unit: UnitChoice = None,
    num_clusters: Annotated[
        int | None,
        Field(ge=1, le=grouping.MAX_CLUSTERS, description="How many; default: found out."),
    ] = None,
    noise: Annotated[
        bool, Field(description="False: put texts that fit nowhere into the nearest one.")
    ] = True,
    examples: Annotated[int, Field(ge=0, le=20, description="Central texts of each.")] = 3,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, ClusterResult]:
    """Group texts by what they are about, without naming categories first.

    Use it to see what is in many rows, texts, or files or passages of a folder: tickets, reviews,
    notes. Not where the categories are known (classify_taxonomy).

    Returns the clusters, largest first: {cluster, size, words, examples}; make a label of words and
    examples. Texts that fit nowhere count in num_noise, and are -1 in the file. The same input
    gives the same clusters. Limit: 1,000 texts in a call, 10,000 rows, 50,000 passages.
    """
    context = tool_context(ctx)
    output = find_output(context, output_path)
    progress = context.progress
    collection = await read_collection(context, Source(texts, path, columns, unit), model, progress)
    num = len(collection.texts)
    if num_clusters is not None and num_clusters > num:
        raise InvalidInput(f"num_clusters is {num_clusters}, but there are {num:,} texts; ask less")
    clusters = await find_clusters(collection.vectors, num_clusters, progress, noise=noise)
    result = await _answer(collection, clusters, examples, context.list_tokens, context.keep)
    if output is not None:
        result.output_path = str(output.path)
        result.num_written = await anyio.to_thread.run_sync(_write, output, collection, clusters)
    return compact(result)
