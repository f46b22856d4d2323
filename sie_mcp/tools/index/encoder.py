"""Which model makes the vectors of a store, told from another of its name by a probe."""

from dataclasses import dataclass

import numpy as np

from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InferenceError
from sie_mcp.tools.vectors import PROBE, embed_texts


@dataclass(frozen=True, slots=True)
class Encoder:
    """A model's name, never "auto", and its vector of the probe, float32 `(dims,)`."""

    model: str
    probe: np.ndarray


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the model reads it, float32 `(dims,)`, and who read it."""

    text: str
    vector: np.ndarray
    encoder: Encoder


async def find_encoder(client: EngineClient, model: str, progress: Progress) -> Encoder:
    """Embed the probe.

    Raises:
        InferenceError: it has no vector.
    """
    vectors = await embed_texts(client, model, [PROBE], is_query=True, progress=progress)
    return Encoder(vectors.model, vectors.values[0])


async def ask(client: EngineClient, model: str, query: str, progress: Progress) -> Question:
    """Embed a query, and with it the probe.

    Raises:
        InferenceError: one of them has no vector.
    """
    vectors = await embed_texts(client, model, [query, PROBE], is_query=True, progress=progress)
    if vectors.failed:
        raise InferenceError(f"the query has no vector: {vectors.failed.popitem()[1].message}")
    return Question(query, vectors.values[0], Encoder(vectors.model, vectors.values[1]))
