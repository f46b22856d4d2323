"""A call of `classify_taxonomy` in a process of its own, which is killed once some texts are seen.

Run by test_file_run.py: `python -m tests.tools.categories.killed_run FOLDER CACHE NUM_TEXTS`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sie_mcp import wire
from sie_mcp.client import Progress
from sie_mcp.tools.categories import file_run
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

BLOCK_TEXTS = 8
TREE = ["Clothing > Shirts", "Clothing > Shoes", "Kitchen > Pots", "Kitchen > Forks"]
CALL = {
    "path": "shop.csv",
    "columns": ["title"],
    "taxonomy": TREE,
    "output_path": "out.jsonl",
    "top_k": 2,
}


class DoomedWorker(FakeWorker):
    """Takes its whole process along once it is asked for more than `num_texts` of the file."""

    def __init__(self, num_texts: int) -> None:
        super().__init__()
        self.left = num_texts

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        self.left -= sum(" lot" in (item.text or "") for item in items)
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().encode(model, items, params, progress=progress)


async def main(folder: str, cache: str, num_texts: str) -> None:
    file_run.BLOCK_TEXTS = BLOCK_TEXTS
    await Toolbox(DoomedWorker(int(num_texts)), Path(folder), Path(cache)).call(
        "classify_taxonomy", **CALL
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
