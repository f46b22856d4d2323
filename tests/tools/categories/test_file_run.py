"""A long file is gone on with where it was, whatever ended the call before."""

import fcntl
import json
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import anyio
import pytest

from tests.tools.categories.killed_run import BLOCK_TEXTS, CALL, TREE
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
NUM_ROWS = 60
NAMES = ("shirts", "shoes", "pots", "forks")
# Every text comes twice.
TITLES = [f"{NAMES[n % 30 % 4]} lot {n % 30}" for n in range(NUM_ROWS)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sie_mcp.tools.categories.file_run.BLOCK_TEXTS", BLOCK_TEXTS)


@pytest.fixture
def shop(toolbox: Toolbox) -> Toolbox:
    lines = ["id,title", *(f"p{n},{title}" for n, title in enumerate(TITLES))]
    toolbox.write("shop.csv", "\n".join(lines) + "\n")
    return toolbox


def classified(worker: FakeWorker) -> list[str]:
    """The texts of the file that were encoded, in order."""
    return [text for _, _, texts in worker.calls for text in texts if " lot" in text]


def journals(toolbox: Toolbox) -> list[Path]:
    return sorted(toolbox.folder.glob(".sie-*.journal"))


def kill_after(toolbox: Toolbox, num_texts: int) -> None:
    """Let a process of its own do the call until it has asked for so many texts."""
    command = [sys.executable, "-m", "tests.tools.categories.killed_run"]
    ended = subprocess.run(
        [*command, str(toolbox.folder), str(toolbox.cache), str(num_texts)],
        timeout=90,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert not (toolbox.folder / "out.jsonl").exists()


async def cut_short(shop: Toolbox) -> Path:
    """Let a call end before its deadline, with one block done; return its journal."""
    await shop.call("classify_taxonomy", texts=["shoes"], taxonomy=TREE)
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(60):
        patch.setattr("sie_mcp.tools.long_work.MARGIN_S", 1e6)
        text = await shop.error("classify_taxonomy", **CALL)
    assert text.startswith(f"{BLOCK_TEXTS} of 30 texts are classified and kept; the same call")
    (journal,) = journals(shop)
    return journal


async def test_a_killed_call_repeats_nothing_that_was_done(shop: Toolbox) -> None:
    whole = await shop.call("classify_taxonomy", **CALL)
    written = (shop.folder / "out.jsonl").read_bytes()
    assert len(classified(shop.worker)) == NUM_ROWS // 2 and journals(shop) == []
    (shop.folder / "out.jsonl").unlink()

    kill_after(shop, 3 * BLOCK_TEXTS)
    (journal,) = journals(shop)
    done = [json.loads(line[9:])[0] for line in journal.read_text().splitlines()[1:]]
    # The block that is decided and the one that is waiting are all that is lost.
    assert len(done) >= BLOCK_TEXTS
    shop.worker.calls.clear()
    answer = await shop.call("classify_taxonomy", **CALL)
    assert len(classified(shop.worker)) == NUM_ROWS // 2 - len(done)
    assert answer.pop("resumed") == len(done) and answer == whole
    assert (shop.folder / "out.jsonl").read_bytes() == written
    assert journals(shop) == []


async def test_a_line_that_was_not_written_to_its_end_is_done_again(shop: Toolbox) -> None:
    journal = await cut_short(shop)
    content = journal.read_bytes()
    journal.write_bytes(content[:-20])
    answer = await shop.call("classify_taxonomy", **CALL)
    assert answer["resumed"] == content.count(b"\n") - 2
    rows = (shop.folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(row)["id"] for row in rows] == [f"p{n}" for n in range(NUM_ROWS)]


@pytest.mark.parametrize(
    "change", [{"top_k": 1}, {"min_confidence": 0.5}, {"taxonomy": TREE[:3]}, {"columns": ["id"]}]
)
async def test_another_call_does_not_take_up_the_journal(
    shop: Toolbox, change: dict[str, object]
) -> None:
    await cut_short(shop)
    answer = await shop.call("classify_taxonomy", **CALL | change)
    assert "resumed" not in answer and len(journals(shop)) == 1


async def test_a_changed_file_is_begun_anew(shop: Toolbox) -> None:
    await cut_short(shop)
    with (shop.folder / "shop.csv").open("a") as file:
        file.write("p60,shirts lot 99\n")
    answer = await shop.call("classify_taxonomy", **CALL)
    assert "resumed" not in answer and answer["count"] == NUM_ROWS + 1


async def test_new_weights_under_an_old_name_are_begun_anew(shop: Toolbox) -> None:
    await cut_short(shop)
    shop.worker.seed = "new weights"
    answer = await shop.call("classify_taxonomy", **CALL)
    assert "resumed" not in answer and journals(shop) == []


async def test_what_is_no_journal_of_ours_is_not_touched(shop: Toolbox) -> None:
    journal = await cut_short(shop)
    journal.unlink()
    other = shop.folder / "other.txt"
    other.write_text("keep me")
    journal.symlink_to(other)
    text = await shop.error("classify_taxonomy", **CALL)
    assert str(journal) in text and "cannot be written" in text
    assert other.read_text() == "keep me"


NO_OWNER = b"%08x {}\n" % zlib.crc32(b"{}")


@pytest.mark.parametrize(
    "content", [b"", b"no journal\n", b"\xff" * 50, b"00000000 {}\n", NO_OWNER]
)
async def test_a_broken_journal_is_begun_anew(shop: Toolbox, content: bytes) -> None:
    journal = await cut_short(shop)
    journal.write_bytes(content)
    answer = await shop.call("classify_taxonomy", **CALL)
    assert "resumed" not in answer and answer["count"] == NUM_ROWS


async def test_calls_that_would_be_late_get_on_a_block_each(
    shop: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_short(shop)
    monkeypatch.setattr("sie_mcp.tools.long_work.MARGIN_S", 1e6)
    with anyio.fail_after(60):
        for done in (16, 24):
            text = await shop.error("classify_taxonomy", **CALL)
            assert text.startswith(f"{done} of 30 texts")
        answer = await shop.call("classify_taxonomy", **CALL)
    assert answer["resumed"] == 24 and answer["count"] == NUM_ROWS
    assert any(message == "classifying texts" for _, _, message in shop.reports)


async def test_only_one_call_at_a_time_is_at_a_file(shop: Toolbox) -> None:
    journal = await cut_short(shop)
    with journal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = await shop.error("classify_taxonomy", **CALL)
    assert text == "another call is writing out.jsonl already; wait for it to end"


async def test_an_entry_that_says_something_else_is_refused(shop: Toolbox) -> None:
    journal = await cut_short(shop)
    first, *lines = journal.read_bytes().splitlines()
    data = json.dumps([json.loads(lines[0][9:])[0], {"path": 3}]).encode()
    journal.write_bytes(first + f"\n{zlib.crc32(data):08x} ".encode() + data + b"\n")
    text = await shop.error("classify_taxonomy", **CALL)
    assert text == f"{journal} is broken; delete it and call again"


async def test_texts_without_a_vector_are_reported_and_the_others_written(shop: Toolbox) -> None:
    # The last block holds nothing else.
    lines = ["title", *TITLES[:24], "FAIL lot"]
    shop.write("shop.csv", "\n".join(lines) + "\n")
    answer = await shop.call("classify_taxonomy", **CALL)
    assert answer["failed"]["count"] == 1 and answer["failed"]["first"][0]["index"] == 24
    assert len((shop.folder / "out.jsonl").read_text().splitlines()) == 24


async def test_a_file_whose_texts_all_fail_is_an_error(shop: Toolbox) -> None:
    shop.write("shop.csv", "title\nFAIL lot\nFAIL lots\n")
    assert "no memory for this item" in await shop.error("classify_taxonomy", **CALL)
    assert not (shop.folder / "out.jsonl").exists()


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
async def test_every_format_of_output_is_written(shop: Toolbox, name: str) -> None:
    answer = await shop.call("classify_taxonomy", **CALL | {"output_path": name})
    assert answer["count"] == NUM_ROWS and (shop.folder / name).stat().st_size > 0


async def test_a_summary_is_short_and_shows_the_least_sure_with_alternatives(
    shop: Toolbox,
) -> None:
    titles = [f"{'some words that say nothing ' * 3}{n}" for n in range(500)]
    shop.write("shop.csv", "\n".join(["title", *titles]) + "\n")
    answer = await shop.call("classify_taxonomy", **CALL | {"min_confidence": 0.99})
    assert answer["share_unsure"] == 1.0 and answer["num_unsure"] == 500
    confidences = [row["confidence"] for row in answer["least_sure"]]
    assert confidences == sorted(confidences) and 1 <= len(confidences) <= 20
    assert all(row["alternatives"] for row in answer["least_sure"])
    assert len(json.dumps(answer)) / 4 <= 1_500


async def test_rows_that_stopped_at_a_parent_are_counted_and_say_so(shop: Toolbox) -> None:
    shop.write("shop.csv", "id,title\n,kitchen\n7,kitchen forks\n")
    tree = ["Kitchen > Forks", "Kitchen > Knives", "Garden > Rakes"]
    call = CALL | {"columns": ["title"], "taxonomy": tree}
    sure = await shop.call("classify_taxonomy", **call)
    assert "num_at_parent" not in sure and "share_unsure" not in sure
    least = max(row["confidence"] for row in sure["least_sure"]) - 0.001
    again = {"min_confidence": least, "output_path": "again.jsonl"}
    answer = await shop.call("classify_taxonomy", **call | again)
    lines = (shop.folder / "again.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    stopped = [row for row in rows if row.get("at_parent")]
    assert answer["num_at_parent"] == len(stopped) == 1
    assert stopped[0]["path"] == "Kitchen" and stopped[0]["alternatives"][0]["path"] in tree
    # An empty id is none.
    assert ["id" in row for row in rows] == [False, True]
    page = await shop.call("review_uncertain", path="again.jsonl")
    assert [row.get("at_parent") for row in page["results"]].count(True) == 1
