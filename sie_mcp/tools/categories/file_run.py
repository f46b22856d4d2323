"""Files of texts to a file of categories, resumable: what is done of it is kept in a journal.

The same call, after whatever ended it, goes on where it was. A text that comes twice is classified
once. While one block is decided the next is encoded.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sie_mcp import __version__, wire
from sie_mcp.chunks import first_error
from sie_mcp.client import Progress
from sie_mcp.errors import DeadlineExceeded
from sie_mcp.tools.categories.choice import Classification
from sie_mcp.tools.categories.file_rows import Counted, FileRow, FileRows
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.labelled import ClassifyOptions, ClassifyResult
from sie_mcp.tools.categories.writer import Writer, broken, to_keep
from sie_mcp.tools.classification import Classifier, Seen
from sie_mcp.tools.decision import Curve
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.long_work import is_late
from sie_mcp.tools.result import or_none
from sie_mcp.tools.vectors import SAME_MODEL

# Different texts that are encoded together; a call that is cut short loses two such blocks at most.
BLOCK_TEXTS = 256
# Raised when what an entry of the journal holds changes its meaning.
FORM = 3

# The entry of the curve of confidence, fitted to the first block; no text's digest is called so.
CURVE = "curve"

_Block = list[FileRow]


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
    owner = _owner(classifier)
    journal = Journal(
        output, _key(classifier, counted, output), owner, lambda other: _is_same(owner, other)
    )
    with journal:
        run = _Run(classifier, rows, counted, journal, progress)
        resumed = run.num_done
        failed = await run.classify()
        await progress(0, 1, f"writing {output.name}")
        writer = Writer(rows, counted, journal, options, output, failed)
        result = await anyio.to_thread.run_sync(writer.write, classifier)
        await anyio.to_thread.run_sync(journal.remove)
    result.resumed = or_none(resumed)
    return result


def _key(classifier: Classifier, counted: Counted, output: AllowedPath) -> str:
    """Identify the work: the texts, the categories, what decides, and where it goes."""
    choice, tree = classifier.choice, classifier.taxonomy
    parts = [
        FORM,
        __version__,
        counted.digest,
        tree.digest,
        tree.ids,
        choice.top_k,
        choice.min_confidence,
        list(choice.examples.texts),
        list(choice.examples.nodes),
        [reader.model for reader in classifier.readers],
        classifier.pictures and classifier.pictures.model,
        choice.reranker,
        output.path.name,
    ]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _owner(classifier: Classifier) -> dict[str, Any]:
    """Identify the weights, which may change under a model's name."""
    read = [reader.nodes for reader in classifier.readers]
    if classifier.pictures is not None:
        read.append(classifier.pictures.nodes)
    return {
        "form": FORM,
        "probes": [[round(float(one), 6) for one in nodes.probe] for nodes in read],
    }


def _is_same(owner: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        pairs = zip(owner["probes"], other["probes"], strict=True)
        return other["form"] == FORM and all(
            float(np.dot(np.asarray(a, float), np.asarray(b, float))) >= SAME_MODEL
            for a, b in pairs
        )
    except (KeyError, TypeError, ValueError):
        return False


class _Run:
    """One call's way through the texts that the journal does not have yet."""

    def __init__(
        self,
        classifier: Classifier,
        rows: FileRows,
        counted: Counted,
        journal: Journal,
        progress: Progress,
    ) -> None:
        self._classifier = classifier
        self._rows = rows
        self._counted = counted
        self._journal = journal
        self._progress = progress
        self._failed: dict[str, wire.ItemError] = {}
        self._is_calibrated = False

    async def classify(self) -> dict[str, wire.ItemError]:
        """Fill the journal; return the texts that have no category, by their digests."""
        send, receive = anyio.create_memory_object_stream[tuple[_Block, Seen]](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._look, send)
                await self._decide(receive)
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error
        return self._failed

    async def _decide(self, receive: MemoryObjectReceiveStream[tuple[_Block, Seen]]) -> None:
        """Decide blocks as they come, until the deadline is near."""
        longest_s, began_s = 0.0, anyio.current_time()
        async with receive:
            async for block, seen in receive:
                await anyio.to_thread.run_sync(self._calibrate, seen)
                found = await anyio.to_thread.run_sync(self._classifier.decide, seen)
                await anyio.to_thread.run_sync(self._keep, block, found)
                now_s = anyio.current_time()
                longest_s, began_s = max(longest_s, now_s - began_s), now_s
                await self._tell(0, 1, "")
                if self._num_left and is_late(longest_s):
                    raise DeadlineExceeded(
                        f"{self.num_done:,} of {self._counted.num_unique:,} texts are classified "
                        "and kept; the same call again goes on from there"
                    )

    def _calibrate(self, seen: Seen) -> None:
        """Have one curve for all rows: what an earlier call fitted, or the first block's."""
        if self._is_calibrated:
            return
        if CURVE in self._journal:
            self._classifier = self._classifier.with_curve(self._kept_curve())
        elif not self.num_done:
            before = self._classifier
            self._classifier = before.calibrated(seen)
            if self._classifier is not before:
                curve = self._classifier.choice.curve
                self._journal.add([(CURVE, [curve.slope, curve.offset])])
        self._is_calibrated = True

    def _kept_curve(self) -> Curve:
        try:
            slope, offset = self._journal[CURVE]
            return Curve(float(slope), float(offset))
        except (TypeError, ValueError) as error:
            raise broken(self._journal) from error

    async def _look(self, send: MemoryObjectSendStream[tuple[_Block, Seen]]) -> None:
        """Encode block by block; one is ready while another is decided."""
        blocks = self._blocks()
        async with send:
            while block := await anyio.to_thread.run_sync(next, blocks, None):
                texts, images = [row.text for row in block], [row.image for row in block]
                seen = await self._classifier.look(texts, self._tell, images=images)
                await send.send((block, seen))

    def _blocks(self) -> Iterator[_Block]:
        """Yield the different texts that are not done, with their digests."""
        block: _Block = []
        seen: set[str] = set()
        for row in self._rows.read_again(self._counted):
            digest = row.digest
            if digest in seen or digest in self._journal:
                continue
            seen.add(digest)
            block.append(row)
            if len(block) == BLOCK_TEXTS:
                yield block
                block = []
        if block:
            yield block

    def _keep(self, block: _Block, found: Classification) -> None:
        self._failed |= {block[place].digest: why for place, why in found.failed.items()}
        self._journal.add((block[text.place].digest, to_keep(text)) for text in found.texts)

    @property
    def num_done(self) -> int:
        """How many texts need no more work."""
        return len(self._journal) - (CURVE in self._journal) + len(self._failed)

    @property
    def _num_left(self) -> int:
        return self._counted.num_unique - self.num_done

    async def _tell(self, _done: int, _total: int, message: str) -> None:
        """Report in texts, whatever the stage below counts in."""
        await self._progress(
            self.num_done, self._counted.num_unique, message or "classifying texts"
        )
