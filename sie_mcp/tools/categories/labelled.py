"""What is handed back of texts with a category: entries, rows of a file, and the whole result."""

from dataclasses import dataclass, field
from typing import Any

from sie_mcp.tools.categories.choice import Category, Choice, Classified
from sie_mcp.tools.context import Keep, keep_nothing
from sie_mcp.tools.failures import Failures
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import MAX_MESSAGE_CHARS
from sie_mcp.tools.looking import MAX_FAILED, FailedImages
from sie_mcp.tools.outputs import ColumnType
from sie_mcp.tools.result import LimitedResult, Result, RoundedScore

# Of a text in a file: enough to stand for it as an example, which is what models read of it.
TEXT_CHARS = 1_000
COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "text": "text",
    "category_id": "text",
    "path": "text",
    "at_parent": "bool",
    "score": "float",
    "confidence": "float",
    "unsure": "bool",
    "truncated": "bool",
    "alternatives": "text",
}


def columns_of(has_pictures: bool) -> dict[str, ColumnType]:
    """Return the columns of a file of results."""
    return COLUMNS | {"image_error": "text"} if has_pictures else COLUMNS


@dataclass(frozen=True, slots=True)
class ClassifyOptions:
    """What to hand back; with `output` only a summary."""

    choice: Choice = field(default_factory=Choice)
    min_score: float | None = None
    output: AllowedPath | None = None
    max_tokens: int = 4_000
    keep: Keep = keep_nothing


class Labelled(Result):
    """One text's category. `unsure`: below min_score or min_confidence.

    `at_parent`: the likeliest category is one below, and not sure enough (min_confidence).
    `image_error`: why its picture did not count.
    """

    index: int
    id: str | None = None
    source: str | None = None
    text: str | None = None
    category_id: str | None = None
    path: str
    at_parent: bool | None = None
    score: RoundedScore
    confidence: RoundedScore | None = None
    unsure: bool | None = None
    truncated: bool | None = None
    image_error: str | None = None
    alternatives: list[Category] | None = None


class LeastSure(Result):
    """A text that is worth a second look; alternatives are ids and names, or names alone."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str
    path: str
    confidence: RoundedScore
    alternatives: list[str] | None = None


class ClassifyResult(LimitedResult):
    """Every text's category, or with a file a summary: counts and the least sure.

    `resumed`: how many texts an earlier call that was cut short had done.
    """

    model: str
    companion: str | None = None
    image_model: str | None = None
    reranker: str | None = None
    taxonomy: str
    num_categories: int
    count: int
    num_unsure: int | None = None
    num_at_parent: int | None = None
    share_unsure: RoundedScore | None = None
    results: list[Labelled] | None = None
    output_path: str | None = None
    resumed: int | None = None
    counts: dict[str, int] | None = None
    other_counts: int | None = None
    least_sure: list[LeastSure] | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    failed_images: FailedImages | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text comes from: its number, and its id and source if it has them."""

    index: int
    id: str | None = None
    source: str | None = None


@dataclass(slots=True)
class ImageProblems:
    """Counts rows whose picture did not count, and keeps the first few."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, entry: Labelled) -> None:
        """Count a row, if its picture was lost."""
        if entry.image_error is not None:
            self.count += 1
            if self.count <= MAX_FAILED:
                self.first.append(f"{entry.index}: {entry.image_error}"[:MAX_MESSAGE_CHARS])

    @property
    def result(self) -> FailedImages | None:
        """What a result says of them; None when there are none."""
        return FailedImages(count=self.count, first=self.first) if self.count else None


def label(text: Classified, place: Place, options: ClassifyOptions) -> Labelled:
    """Return a text's entry."""
    best, *others = text.categories
    is_unsure = text.confidence < options.choice.min_confidence or (
        options.min_score is not None and best.score < options.min_score
    )
    return Labelled(
        index=place.index,
        id=place.id,
        source=place.source,
        category_id=best.category_id,
        path=best.path,
        at_parent=text.at_parent or None,
        score=best.score,
        confidence=text.confidence,
        unsure=is_unsure or None,
        truncated=text.is_truncated or None,
        image_error=text.image_error,
        alternatives=others or None,
    )


def row_of(entry: Labelled, text: str, source: str | None, *, is_nested: bool) -> dict[str, Any]:
    """Return the row of a file; alternatives are a list in .jsonl, paths in a cell elsewhere."""
    row = entry.model_dump(exclude_none=True) | {"source": source, "text": text[:TEXT_CHARS]}
    if not is_nested:
        row["alternatives"] = " | ".join(other.path for other in entry.alternatives or [])
    return row
