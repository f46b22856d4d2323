"""A call of `map_taxonomy` in a process of its own, which is killed once some blocks are mapped.

Run by test_mapping.py: `python -m tests.tools.categories.killed_mapping FOLDER CACHE NUM_BLOCKS`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sie_mcp.tools.categories import mapping
from sie_mcp.tools.categories.journal import Journal
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

BLOCK_NODES = 8
SOURCE = [f"Shop {n % 3} > {name} lot {n}" for n in range(15) for name in ("shirts", "forks")]
TARGET = ["Clothing > Shirts", "Clothing > Shoes", "Kitchen > Pots", "Kitchen > Forks"]
CALL = {"source": SOURCE, "target": TARGET, "top_k": 2, "output_path": "out.jsonl"}


async def main(folder: str, cache: str, num_blocks: str) -> None:
    mapping.MAX_BLOCK_NODES = BLOCK_NODES
    left = int(num_blocks)
    add = Journal.add

    def add_or_die(journal: Journal, entries: Iterable[tuple[str, Any]]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        add(journal, entries)

    Journal.add = add_or_die  # type: ignore[method-assign]
    await Toolbox(FakeWorker(), Path(folder), Path(cache)).call("map_taxonomy", **CALL)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
