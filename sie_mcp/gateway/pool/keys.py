"""What requests are routed by, and the order of workers for it. Pure."""

import functools
import hashlib
from typing import NamedTuple

# Orders that are remembered: one a model and membership.
MAX_ORDERS = 4_096


class Key(NamedTuple):
    """A base model, and the LoRA on it if there is one. A pool has keys of its own."""

    model: str
    lora: str | None = None


@functools.lru_cache(maxsize=MAX_ORDERS)
def ranked(name: str, workers: tuple[str, ...]) -> tuple[str, ...]:
    """Return workers in the order in which they should own a name (rendezvous hashing).

    Every gateway finds the same order; a worker that joins or leaves moves its own share only.
    Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.
    """
    return tuple(sorted(workers, key=lambda worker: _score(name, worker), reverse=True))


def owners_of(key: Key, workers: tuple[str, ...], copies: int) -> tuple[str, ...]:
    """Return who should hold a key, first choice first, at most `copies`.

    A LoRA's owners are some of its base model's, which need not be loaded once for each LoRA: all
    of them, in an order of the LoRA's own.
    """
    base = ranked(key.model, workers)[:copies]
    return base if key.lora is None else ranked(f"{key.model}\0{key.lora}", base)


def _score(name: str, worker: str) -> bytes:
    return hashlib.blake2b(f"{name}\0{worker}".encode(), digest_size=8).digest()
