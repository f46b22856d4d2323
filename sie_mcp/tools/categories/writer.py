"""From a journal to a file of categories: row by row, and summed up on the way."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from sie_mcp import wire
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.block_run import broken
from sie_mcp.tools.categories.choice import Category, Classified
from sie_mcp.tools.categories.file_rows import Counted, FileRow, FileRows
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.labelled import (
    ClassifyOptions,
    ClassifyResult,
    ImageProblems,
    Labelled,
    Place,
    columns_of,
    label,
    row_of,
)
from sie_mcp.tools.categories.summary import Summary
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.failures import failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.outputs import write_rows
from sie_mcp.tools.result import Result, or_none


class Kept(Result):
    """What the journal holds of a text."""

    categories: list[Category]
    confidence: float
    is_truncated: bool
    at_parent: bool = False
    image_error: str | None = None


def to_keep(text: Classified) -> dict[str, Any]:
    """Return a text's entry for the journal."""
    kept = Kept(
        categories=text.categories,
        confidence=text.confidence,
        is_truncated=text.is_truncated,
        at_parent=text.at_parent,
        image_error=text.image_error,
    )
    return kept.model_dump(exclude_none=True)


@dataclass(slots=True)
class Writer:
    """Writes the output of rows that the journal has.

    `failed` are the texts that have no category, by their digests.
    """

    rows: FileRows
    counted: Counted
    journal: Journal
    options: ClassifyOptions
    output: AllowedPath
    failed: Mapping[str, wire.ItemError]
    failed_rows: dict[int, wire.ItemError] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    failed_images: ImageProblems = field(default_factory=ImageProblems)

    def write(self, classifier: Classifier) -> ClassifyResult:
        """Write the file; return what is said of it.

        Raises:
            InvalidInput: it cannot be written, or the rows or the journal have changed.
            SieError: every text failed.
        """
        if len(self.failed) == self.counted.num_unique:
            raise_if_all_failed(dict(enumerate(self.failed.values())), len(self.failed))
        pictures = classifier.pictures
        write_rows(self.output, columns_of(pictures is not None), self._lines())
        result = ClassifyResult(
            model=classifier.model,
            companion=classifier.companion,
            reranker=classifier.choice.reranker or None,
            taxonomy=classifier.taxonomy.name,
            num_categories=len(classifier.taxonomy.paths),
            count=self.counted.num_rows,
            blank_rows=or_none(self.counted.num_blank),
            failed=failures(self.failed_rows, range(max(self.failed_rows, default=0) + 1)),
            image_model=pictures and pictures.model,
            failed_images=self.failed_images.result,
            output_path=str(self.output.path),
        )
        self.summary.put_into(result, self.options.max_tokens)
        return result

    def _lines(self) -> Iterator[dict[str, Any]]:
        is_nested = self.output.ending == ".jsonl"
        for row in self.rows.read_again(self.counted):
            if (why := self.failed.get(row.digest)) is not None:
                self.failed_rows[row.index] = why
                continue
            entry = self._labelled(row)
            self.summary.add(entry, row.text)
            self.failed_images.add(entry)
            yield row_of(entry, row.text, row.source, is_nested=is_nested)

    def _labelled(self, row: FileRow) -> Labelled:
        if row.digest not in self.journal:
            raise InvalidInput(f"{row.source} was changed meanwhile; call again")
        place = Place(row.index, row.id, row.source if self.rows.shows_sources else None)
        try:
            kept = Kept.model_validate(self.journal[row.digest])
        except pydantic.ValidationError as error:
            raise broken(self.journal) from error
        text = Classified(place=0, **dict(kept))
        return label(text, place, self.options)
