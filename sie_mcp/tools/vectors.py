"""Texts to unit vectors through the worker: each different text once, per-text failures kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.failures import raise_if_all_failed

# Its vector is kept with stored vectors: the same name with other weights is noticed by it.
PROBE = "A blue cotton shirt with long sleeves, for men."
# Below this cosine the probe was made by another model; batching alone moves it by about 1e-6.
SAME_MODEL = 0.9999
# Vectors that cancel each other out have no mean direction.
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of length 1, in the order of the texts that have one.

    Attributes:
        model: The model that made them; never "auto".
        values: float32 `(num_kept, dims)`.
        kept: For each row the place of its text.
        truncated: Places of texts that were longer than the model reads.
        failed: Places and reasons of texts without a vector.
    """

    model: str
    values: np.ndarray
    kept: list[int]
    truncated: list[int]
    failed: dict[int, wire.ItemError]


async def embed_texts(
    client: EngineClient,
    model: str,
    texts: Sequence[str],
    *,
    is_query: bool = False,
    may_be_none: bool = False,
    progress: Progress | None = None,
) -> Vectors:
    """Encode texts as dense unit vectors.

    Args:
        client: The way to the worker.
        model: A name, or "auto".
        texts: At least one.
        is_query: Whether they are read as questions.
        may_be_none: Whether it is no error that every text failed.
        progress: Hears how far it is.

    Raises:
        SieError: no text could be encoded.
    """
    unique = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    params = wire.EncodeParams(
        output_types=["dense"], options=wire.EncodeOptions(is_query=is_query, normalize=True)
    )
    answer = await client.encode(
        model, [wire.Item(text=text) for text in unique], params, progress=progress
    )
    encoded = [answer.items[unique[text]] for text in texts]
    failed = {place: item.error for place, item in enumerate(encoded) if item.error}
    if not may_be_none:
        raise_if_all_failed(failed, len(texts))
    kept = [place for place in range(len(texts)) if place not in failed]
    return Vectors(
        model=answer.model,
        values=np.stack([_dense(encoded[place]) for place in kept]) if kept else np.empty((0, 0)),
        kept=kept,
        truncated=[place for place, item in enumerate(encoded) if item.truncated],
        failed=failed,
    )


def mean_vector(vectors: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted mean of unit vectors, again of length 1, float32 `(dims,)`."""
    if len(vectors) == 1:
        return vectors[0]
    mean: np.ndarray = np.asarray(weights, np.float32) @ np.stack(vectors)
    return mean / max(float(np.linalg.norm(mean)), TINY)


def _dense(item: wire.EncodedItem) -> np.ndarray:
    assert item.dense is not None, "the worker left out the output that was asked for"
    return item.dense.values.astype(np.float32, copy=False)
