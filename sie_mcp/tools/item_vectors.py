"""The vectors of what is classified: the whole text, and its head once more at half weight.

The head, a title or a first sentence, says what a thing is; the rest says how it is, and pulls
towards categories of its parts and uses. Measured by evals/taxonomy.py.
"""

import re
from collections.abc import Sequence

import numpy as np

from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.vectors import Vectors, embed_texts

HEAD_WEIGHT = 0.5
MAX_HEAD_CHARS = 200
# Where columns of a file are joined, sentences and lines end.
_HEAD_END = re.compile(r"[.!?]\s|\n|[。！？]")


async def embed_items(
    client: EngineClient,
    model: str,
    texts: Sequence[str],
    *,
    progress: Progress | None = None,
    may_be_none: bool = False,
) -> Vectors:
    """Encode texts so that a dot product with a node is a mean of cosines, weighted.

    Raises:
        SieError: no text could be encoded, unless there may be none.
    """
    heads = {place: cut for place, text in enumerate(texts) if (cut := head(text))}
    # Both in one request: there is less to wait for, and batches are fuller.
    every = [*texts, *heads.values()]
    both = await embed_texts(client, model, every, may_be_none=True, progress=progress)
    failed = {place: why for place, why in both.failed.items() if place < len(texts)}
    if not may_be_none:
        raise_if_all_failed(failed, len(texts))
    kept = [place for place in both.kept if place < len(texts)]
    values = np.array(both.values[: len(kept)], np.float32)
    row = {place: row for row, place in enumerate(both.kept)}
    pairs = [(row.get(place), row.get(n)) for n, place in enumerate(heads, len(texts))]
    rows = np.array([pair for pair in pairs if None not in pair], np.int64).reshape(-1, 2)
    if len(rows):
        own, cut_rows = rows.T
        values[own] = (values[own] + HEAD_WEIGHT * both.values[cut_rows]) / (1 + HEAD_WEIGHT)
    truncated = [place for place in both.truncated if place < len(texts)]
    return Vectors(both.model, values, kept, truncated, failed)


def head(text: str) -> str:
    """Return what comes first in a text, a title or a sentence; "" if that is all of it."""
    stripped = text.strip()
    end = _HEAD_END.search(stripped)
    if end is None or end.start() == 0 or end.start() > MAX_HEAD_CHARS:
        return ""
    rest = stripped[end.end() :].strip()
    return stripped[: end.start()] if rest else ""
