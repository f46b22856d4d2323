"""The vectors of what is classified: the whole text, and its head once more at half weight.

The head, a title or a first sentence, says what a thing is; the rest says how it is, and pulls
towards categories of its parts and uses. Measured by evals/taxonomy.py.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sie_mcp.client import EngineClient, Progress
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
    progress: Progress,
    may_be_none: bool = False,
) -> Vectors:
    """Encode texts so that a dot product with a node is a mean of cosines, weighted.

    Raises:
        SieError: no text could be encoded, unless there may be none.
    """
    whole = await embed_texts(client, model, texts, may_be_none=may_be_none, progress=progress)
    cut = [place for place in range(len(whole.kept)) if head(texts[whole.kept[place]])]
    if not cut:
        return whole
    heads = [head(texts[whole.kept[place]]) for place in cut]
    found = await embed_texts(client, whole.model, heads, may_be_none=True)
    values = np.array(whole.values, np.float32)
    rows = [cut[place] for place in found.kept]
    if rows:
        values[rows] = (values[rows] + HEAD_WEIGHT * found.values) / (1 + HEAD_WEIGHT)
    return replace(whole, values=values)


def head(text: str) -> str:
    """Return what comes first in a text, a title or a sentence; "" if that is all of it."""
    stripped = text.strip()
    end = _HEAD_END.search(stripped)
    if end is None or end.start() == 0 or end.start() > MAX_HEAD_CHARS:
        return ""
    rest = stripped[end.end() :].strip()
    return stripped[: end.start()] if rest else ""
