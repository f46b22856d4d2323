"""What an index holds: chunks with their vectors, and what is known of each file."""

from dataclasses import dataclass

import numpy as np

from sie_mcp.tools.index.reading import Unit


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """One chunk: its file and number there, from 0, where it lies, and its text."""

    path: str
    number: int
    unit: Unit
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """What of one file is not to be found: all that overlaps these lines, pages or paragraphs."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Row:
    """A chunk as it is written.

    Attributes:
        digest: Of what the encoder reads; the same digest has the same vector.
        vector: float32 `(dims,)`, of length 1.
    """

    chunk: StoredChunk
    digest: str
    vector: np.ndarray


@dataclass(frozen=True, slots=True)
class Known:
    """One file as it was when it was indexed.

    Attributes:
        digest: Of its bytes; "" if it is to be read again.
        read_ns: When it was read.
        num_chunks: How many of its chunks have a vector.
        problem: Why there are none.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str
    read_ns: int
    num_chunks: int
    problem: str
