"""A long file as a task: ended half-way it is gone on with by the next call."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.front import gateway
from tests.gateway.modern import Modern
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio
NUM_ROWS = 8
CALL = {
    "path": "rows.txt",
    "taxonomy": ["0.25", "0.75"],
    "output_path": "out.jsonl",
    "model": "toy",
}


async def test_a_task_that_is_cancelled_leaves_what_was_done_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.categories.file_run.BLOCK_TEXTS", 2)
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "rows.txt").write_text("".join(f"0.{n}1\n" for n in range(NUM_ROWS)))
    settings = {"allow": (folder,), "cache_dir": tmp_path / "cache", "task_after_s": 0.05}
    async with gateway(files_allowed=True, **settings) as front:
        client = Modern(front.http)
        # The last block waits, for ever.
        hold = front.worker.hold(asyncio.Event())

        async def always(request):
            return await hold(request) if "0.71" in front.worker.seen[-1].texts else None

        front.worker.always = always
        created = await client.call("classify_taxonomy", **CALL)
        assert created["resultType"] == "task"
        await until(lambda: any("0.71" in one.texts for one in front.worker.seen))
        (journal,) = folder.glob(".sie-*.journal")
        await until(lambda: journal.read_bytes().count(b"\n") == 1 + 6)
        await client.result("tasks/cancel", taskId=created["taskId"])
        assert (await client.ended(created["taskId"]))["status"] == "cancelled"
        assert not (folder / "out.jsonl").exists()

        front.worker.always = None
        created = await client.call("classify_taxonomy", **CALL)
        if created["resultType"] == "task":
            created = (await client.ended(created["taskId"]))["result"]
        answer = created["structuredContent"]
        assert answer["resumed"] == 6 and answer["count"] == NUM_ROWS
    assert (folder / "out.jsonl").read_text().count("\n") == NUM_ROWS
