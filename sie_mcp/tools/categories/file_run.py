"""Files of texts to a file of categories, resumable. A text that comes twice is classified once."""

from collections.abc import Iterator

import anyio.to_thread

from sie_mcp.client import Progress
from sie_mcp.tools.categories.block_run import Block, BlockRun, Work, open_journal
from sie_mcp.tools.categories.file_rows import Counted, FileRow, FileRows
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.labelled import ClassifyOptions, ClassifyResult
from sie_mcp.tools.categories.writer import Writer, to_keep
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.result import or_none

# Different texts that are encoded together; a call that is cut short loses two such blocks at most.
BLOCK_TEXTS = 256


async def run_files(
    classifier: Classifier,
    rows: FileRows,
    counted: Counted,
    options: ClassifyOptions,
    output: AllowedPath,
    progress: Progress,
) -> ClassifyResult:
    """Classify every row, write the file and sum it up; `counted` is what `rows.count` said.

    Raises:
        InvalidInput: what a reader refuses, or the files or the journal change meanwhile.
        DeadlineExceeded: the call's deadline comes first; what is done is kept for the next call.
        SieError: what the worker answered.
    """
    # The texts, and where they go: the same texts may be wanted in two files.
    with open_journal(classifier, output, counted.digest, output.path.name) as journal:
        run = BlockRun(classifier, journal, Work(counted.num_unique, to_keep), progress)
        resumed = run.num_done
        failed = await run.classify(_blocks(rows, counted, journal))
        await progress(0, 1, f"writing {output.name}")
        writer = Writer(rows, counted, journal, options, output, failed)
        result = await anyio.to_thread.run_sync(writer.write, classifier)
        await anyio.to_thread.run_sync(journal.remove)
    result.resumed = or_none(resumed)
    return result


def _blocks(rows: FileRows, counted: Counted, journal: Journal) -> Iterator[Block]:
    """Yield the different texts that are not done, under their digests."""
    waiting: list[FileRow] = []
    seen: set[str] = set()
    for row in rows.read_again(counted):
        digest = row.digest
        if digest in seen or digest in journal:
            continue
        seen.add(digest)
        waiting.append(row)
        if len(waiting) == BLOCK_TEXTS:
            yield _block(waiting)
            waiting = []
    if waiting:
        yield _block(waiting)


def _block(rows: list[FileRow]) -> Block:
    return Block(
        [row.digest for row in rows], [row.text for row in rows], [row.image for row in rows]
    )
