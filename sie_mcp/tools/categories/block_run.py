"""Texts to categories block by block, resumable: what is done is kept in a journal.

The same call, after whatever ended it, goes on where it was. While one block is decided the next
is encoded. Knows neither files nor where the texts come from.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sie_mcp import __version__, wire
from sie_mcp.chunks import first_error
from sie_mcp.client import Progress
from sie_mcp.errors import DeadlineExceeded, InvalidInput
from sie_mcp.tools.categories.choice import Classification, Classified
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.categories.seen import Seen
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.decision import Curve
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.long_work import is_late
from sie_mcp.tools.vectors import SAME_MODEL

# Raised when what an entry of a journal holds changes its meaning.
FORM = 4
# The entry of the curve of confidence, fitted to the first block; no text's name is called so.
CURVE = "curve"


@dataclass(frozen=True, slots=True)
class Block:
    """Texts that are seen and decided together.

    Attributes:
        names: Their entries in the journal.
        texts: What they say.
        images: What names their pictures; empty for none.
        heads: What each says the thing is; None: what comes first in it.
        vectors: Each model's of the texts; empty: the models are asked.
    """

    names: Sequence[str]
    texts: Sequence[str]
    images: Sequence[str] = ()
    heads: Sequence[str] | None = None
    vectors: Sequence[np.ndarray] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What is done to all texts.

    Attributes:
        num_texts: How many there are, with those that are done.
        keep: Makes the entry of a text.
        is_calibrated: Whether the curve of confidence is right as it is.
        doing: What progress calls it.
        done: What an error says of those that are done.
    """

    num_texts: int
    keep: Callable[[Classified], Any]
    is_calibrated: bool = False
    doing: str = "classifying texts"
    done: str = "texts are classified"


def open_journal(classifier: Classifier, place: AllowedPath, *parts: Any) -> Journal:
    """Return the journal beside `place` of this work: the categories, what decides, and `parts`."""
    owner = _owner(classifier)
    return Journal(place, _key(classifier, parts), owner, lambda other: _is_same(owner, other))


def broken(journal: Journal) -> InvalidInput:
    """Return the error of an entry that is whole and yet none of ours."""
    return InvalidInput(f"{journal.shown} is broken; delete it and call again")


def _key(classifier: Classifier, more: Sequence[Any]) -> str:
    choice, tree = classifier.choice, classifier.taxonomy
    parts = [
        FORM,
        __version__,
        tree.digest,
        tree.ids,
        choice.top_k,
        choice.min_confidence,
        list(choice.examples.texts),
        list(choice.examples.nodes),
        [reader.model for reader in classifier.readers],
        classifier.pictures and classifier.pictures.model,
        choice.reranker,
        *more,
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


class BlockRun:
    """One call's way through the texts that an open journal does not have yet."""

    def __init__(
        self, classifier: Classifier, journal: Journal, work: Work, progress: Progress
    ) -> None:
        self._classifier = classifier
        self._journal = journal
        self._work = work
        self._progress = progress
        self._failed: dict[str, wire.ItemError] = {}
        self._is_calibrated = work.is_calibrated

    async def classify(self, blocks: Iterator[Block]) -> dict[str, wire.ItemError]:
        """Fill the journal from blocks of what it lacks; return what has no category, by name.

        Raises:
            InvalidInput: the journal changes meanwhile, or what `blocks` raises.
            DeadlineExceeded: the call's deadline comes first; what is done is kept.
            SieError: what the worker answered.
        """
        send, receive = anyio.create_memory_object_stream[tuple[Block, Seen]](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._look, blocks, send)
                await self._decide(receive)
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error
        return self._failed

    async def _decide(self, receive: MemoryObjectReceiveStream[tuple[Block, Seen]]) -> None:
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
                if self.num_done < self._work.num_texts and is_late(longest_s):
                    raise DeadlineExceeded(
                        f"{self.num_done:,} of {self._work.num_texts:,} {self._work.done} "
                        "and kept; the same call again goes on from there"
                    )

    def _calibrate(self, seen: Seen) -> None:
        """Have one curve for all texts: what an earlier call fitted, or the first block's."""
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

    async def _look(
        self, blocks: Iterator[Block], send: MemoryObjectSendStream[tuple[Block, Seen]]
    ) -> None:
        """Encode block by block; one is ready while another is decided."""
        async with send:
            while block := await anyio.to_thread.run_sync(next, blocks, None):
                seen = await self._classifier.look(
                    block.texts,
                    self._tell,
                    heads=block.heads,
                    images=block.images,
                    vectors=block.vectors,
                )
                await send.send((block, seen))

    def _keep(self, block: Block, found: Classification) -> None:
        self._failed |= {block.names[place]: why for place, why in found.failed.items()}
        self._journal.add((block.names[text.place], self._work.keep(text)) for text in found.texts)

    @property
    def num_done(self) -> int:
        """How many texts need no more work."""
        return len(self._journal) - (CURVE in self._journal) + len(self._failed)

    async def _tell(self, _done: int, _total: int, message: str) -> None:
        """Report in texts, whatever the stage below counts in."""
        await self._progress(self.num_done, self._work.num_texts, message or self._work.doing)
