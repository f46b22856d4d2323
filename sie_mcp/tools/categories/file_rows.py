"""The rows of files as they are wanted three times over: counted, classified, written.

Each time they are read anew, a few at a time, so that memory does not grow with the file.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.pictures import mark_of
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import check_text
from sie_mcp.tools.readers.formats import FORMATS, Format, formats_for
from sie_mcp.tools.sources import has_places, source_of, stream_files


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row that holds a text: its number, and where it stands.

    `image` names its picture, "" for none, and `mark` tells that from one it was before.
    """

    index: int
    id: str | None
    source: str
    text: str
    image: str = ""
    mark: str = ""

    @property
    def digest(self) -> str:
        """The text's own, with its picture's mark, whatever row it is in."""
        whole = f"{self.text}\0{self.mark}" if self.mark else self.text
        return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Counted:
    """What the files held when they were read first: `digest` identifies all texts in order."""

    digest: str
    num_rows: int
    num_blank: int
    num_unique: int


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of files, checked while they are read."""

    paths: Sequence[AllowedPath]
    columns: Sequence[str]
    max_bytes: int
    max_chars: int
    formats: Mapping[str, Format] = field(default_factory=lambda: FORMATS)
    image_column: str = ""
    mark: Callable[[str], str] = str

    @property
    def shows_sources(self) -> bool:
        """Whether an answer names where a text stands, as its number alone does not say it."""
        return has_places(self.paths)

    def read(self) -> Iterator[FileRow]:
        """Yield rows that hold a text.

        Raises:
            InvalidInput: what a reader refuses, too many rows, or a text that is too long.
        """
        found = stream_files(
            self.paths,
            self.columns,
            whole=False,
            max_bytes=self.max_bytes,
            formats=self.formats,
            image_column=self.image_column,
        )
        for index, (number, row) in enumerate(found):
            if row.text.strip():
                source = source_of(self.paths[number].name, row)
                check_text(row.text + (row.id or ""), source, self.max_chars)
                mark = self.mark(row.image) if row.image else ""
                yield FileRow(index, row.id, source, row.text, row.image, mark)

    def count(self) -> Counted:
        """Read everything once.

        Raises:
            InvalidInput: as `read`, or no row holds a text.
        """
        whole = hashlib.sha256()
        seen: set[str] = set()
        num_rows = last = 0
        for row in self.read():
            whole.update(f"{row.index} {row.digest}\n".encode())
            seen.add(row.digest)
            num_rows, last = num_rows + 1, row.index + 1
        if not num_rows:
            raise InvalidInput(
                f"{self.paths[0].name}: all rows are empty in these columns; name others"
            )
        return Counted(whole.hexdigest(), num_rows, last - num_rows, len(seen))

    def read_again(self, counted: Counted) -> Iterator[FileRow]:
        """Yield the rows once more.

        Raises:
            InvalidInput: they are not what they were.
        """
        whole = hashlib.sha256()
        for row in self.read():
            whole.update(f"{row.index} {row.digest}\n".encode())
            yield row
        if whole.hexdigest() != counted.digest:
            raise InvalidInput(f"{self.paths[0].name} was changed meanwhile; call again")


def find_rows(
    context: ToolContext, path: str, columns: Sequence[str], image_column: str = ""
) -> FileRows:
    """Return the rows of a file, or of the files that a pattern matches; nothing is read yet.

    Raises:
        InvalidInput: no such file, or none of a known kind.
    """
    config = context.config
    paths = context.folders.to_read_all(path, FORMATS)
    return FileRows(
        paths,
        columns,
        config.max_file_bytes,
        config.max_item_chars,
        formats_for(config.document_reader, config.document_memory_bytes),
        image_column,
        lambda image: mark_of(context, image),
    )
