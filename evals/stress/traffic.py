"""Requests of seeded callers: which model, how many texts, how long. The same seed, the same calls.

Knows the wire contract; knows nothing of workers or time.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from evals.stress.models import Model
from sie_mcp import wire
from sie_mcp.codec import MSGPACK, encode_body

# Words of the checkpoints' own vocabulary: a word is a token.
WORDS = tuple(f"w{number}" for number in range(150))


@dataclass(frozen=True)
class Job:
    """One request to one model."""

    model: Model
    request: wire.Request

    @cached_property
    def content(self) -> bytes:
        """The body as it is sent; of a job that is sent again it is there already."""
        return encode_body(self.request, MSGPACK)

    @property
    def num_items(self) -> int:
        """Items of the request."""
        return len(self.request.items)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Least and most, both included."""

    items: tuple[int, int] = (1, 8)
    words: tuple[int, int] = (5, 60)


def jobs(models: Sequence[Model], sizes: Sizes, seed: str, *, zipf: float = 0.0) -> Iterator[Job]:
    """Draw requests without end.

    Args:
        models: The first is asked for most often.
        sizes: Of a request.
        seed: Names the caller.
        zipf: Weight of the n-th model is 1 / n^zipf; 0: all the same.
    """
    rng = random.Random(seed)
    weights = list(itertools.accumulate(1 / place**zipf for place in range(1, len(models) + 1)))
    while True:
        (model,) = rng.choices(models, cum_weights=weights)
        texts = [text(rng, sizes.words) for _ in range(rng.randint(*sizes.items))]
        yield Job(model, request(model, texts, query=text(rng, (3, 10))))


def text(rng: random.Random, words: tuple[int, int]) -> str:
    """Draw a text."""
    return " ".join(rng.choices(WORDS, k=rng.randint(*words)))


def request(model: Model, texts: Sequence[str], *, query: str = "w1 w2 w3") -> wire.Request:
    """Ask a model for what it can do."""
    items = [wire.Item(text=one) for one in texts]
    if model.primitive == "encode":
        return wire.EncodeRequest(items=items)
    if model.primitive == "score":
        return wire.ScoreRequest(query=wire.Item(text=query), items=items)
    return wire.ExtractRequest(items=items)
