"""Threads for what takes no device and would hold up the event loop: tokenising and finishing."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
ArgTs = TypeVarTuple("ArgTs")


class ItemThreads:
    """So many threads, asked from the event loop."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="items")

    async def run(self, function: Callable[[*ArgTs], T], *args: *ArgTs) -> T:
        """Run a function on one of them."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def close(self) -> None:
        """Begin nothing any more; threads end with the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def at_once(function: Callable[[*ArgTs], T], *args: *ArgTs) -> T:
    """Run, on the event loop, what takes less time than a thread takes to begin."""
    return function(*args)
