"""Who pulls the requests for a model: those that should own it, as for requests over HTTP. Pure."""

import math
from collections.abc import Collection, Mapping

from sie_mcp.gateway.pool.demand import TARGET_FILL
from sie_mcp.gateway.pool.keys import Key, owners_of
from sie_mcp.gateway.pool.picker import Fetching, Seen, pick

# Requests that a worker has in hand beside those that wait for it before another is to help:
# a load costs more than to wait for so few.
ROUNDS = 8


def as_demand(backlog: int, slots: int) -> int:
    """Return how many requests at once a backlog counts as, for the size of a key's owner set."""
    return math.ceil(backlog / ROUNDS) if backlog > slots * TARGET_FILL else min(backlog, 1)


def owners(
    key: Key, workers: Mapping[str, Seen], copies: int, held: Collection[str] = ()
) -> list[str]:
    """Return who should pull a key, at most one more than have the model already.

    Args:
        key: Which.
        workers: Those that are ready, by name.
        copies: How many should have it.
        held: Who pulls it now; they load it when the first request comes.
    """
    ordered = owners_of(key, tuple(sorted(workers)), len(workers))
    coming = {name: {key} for name in held if name in workers and key not in workers[name].resident}
    choice = pick(key, workers, copies, fetching=Fetching(coming))
    holders = [name for name in ordered if key in workers[name].resident]
    if not holders:
        loading = [name for name in ordered if name in coming or key in workers[name].loading]
        return loading[:copies] or ([choice.worker] if choice.worker else [])
    first = holders[:copies]
    more = [name for name in ordered if name in coming][: copies - len(first)]
    if not more and len(first) < copies and choice.prefetch is not None:
        more = [choice.prefetch]
    return [*first, *more]
