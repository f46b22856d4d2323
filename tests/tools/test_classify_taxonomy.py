"""`classify_taxonomy`, as an agent calls it: results, files, and vectors kept on disk."""

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from filelock import FileLock

from sie_mcp import wire
from sie_mcp.client import Progress
from sie_mcp.errors import QueueFull
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
TREE = [
    "Clothing",
    "Clothing > Shirts",
    "Clothing > Shirts > Cotton shirts",
    "Clothing > Shoes",
    "Kitchen",
    "Kitchen > Pots",
    "Kitchen > Forks",
]
TEXTS = ["blue cotton shirts", "forks for the kitchen", "shoes"]


def encoded(worker: FakeWorker) -> list[str]:
    """Every text the worker encoded, in order."""
    return [text for _, _, texts in worker.calls for text in texts]


def kept_files(toolbox: Toolbox) -> list[Path]:
    return sorted((toolbox.cache / "taxonomies").glob("*.npy"))


async def test_the_nearest_category_comes_with_alternatives(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert answer["taxonomy"] == "given" and answer["num_categories"] == 7
    assert [entry["path"] for entry in answer["results"]] == [TREE[2], TREE[6], TREE[3]]
    first = answer["results"][0]
    assert first["index"] == 0 and "category_id" not in first
    assert len(first["alternatives"]) == 2
    scores = [first["score"], *(other["score"] for other in first["alternatives"])]
    assert scores == sorted(scores, reverse=True) and scores[0] <= 1


async def test_a_score_is_a_weighted_mean_of_three_cosines(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", texts=["shirts"], taxonomy=TREE, top_k=1)
    vector = toolbox.worker.vector
    names = np.mean([vector("Clothing"), vector("Shirts")], axis=0)
    expected = (1.5 * vector("Shirts") + vector("Clothing Shirts") + names) / 3.5
    (entry,) = answer["results"]
    assert entry["path"] == "Clothing > Shirts" and "alternatives" not in entry
    assert entry["score"] == pytest.approx(float(vector("shirts") @ expected), abs=1e-4)


async def test_plain_labels_are_a_taxonomy_too(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify_taxonomy", texts=["refund please"], taxonomy=["billing", "refund"], top_k=9
    )
    (entry,) = answer["results"]
    assert entry["path"] == "refund" and [o["path"] for o in entry["alternatives"]] == ["billing"]


async def test_the_shopify_taxonomy_is_built_in(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", texts=["smart watches"])
    assert answer["taxonomy"] == "shopify" and answer["num_categories"] == 10_595
    assert answer["results"][0]["path"] == "Apparel & Accessories > Jewelry > Smart Watches"
    assert answer["results"][0]["category_id"] == "aa-6-12"
    assert any("preparing taxonomy shopify" in (m or "") for _, _, m in toolbox.reports)


async def test_what_scores_below_min_score_is_marked_unsure(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify_taxonomy", texts=["unrelated words", "shoes"], taxonomy=TREE, min_score=0.4
    )
    assert [entry.get("unsure") for entry in answer["results"]] == [True, None]
    assert answer["num_unsure"] == 1


async def test_long_texts_are_flagged_as_truncated(toolbox: Toolbox) -> None:
    answer = await toolbox.call("classify_taxonomy", texts=["shoes " * 60, "shoes"], taxonomy=TREE)
    assert [entry.get("truncated") for entry in answer["results"]] == [True, None]


async def test_alternatives_give_way_before_texts_do(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 300}
    few = await toolbox.call("classify_taxonomy", texts=TEXTS * 3, taxonomy=TREE)
    assert len(few["results"]) == 9 and "alternatives" not in few["results"][0]
    assert "output_path" in few["hint"] and "omitted" not in few
    many = await toolbox.call("classify_taxonomy", texts=TEXTS * 9, taxonomy=TREE)
    assert len(many["results"]) + many["omitted"] == 27


async def test_a_file_of_rows_becomes_a_file_of_categories_and_a_summary(
    toolbox: Toolbox,
) -> None:
    rows = [{"id": f"p{n}", "title": text, "note": ""} for n, text in enumerate(TEXTS * 40)]
    toolbox.write("shop.jsonl", "\n".join(map(json.dumps, rows)) + "\n")
    answer = await toolbox.call(
        "classify_taxonomy",
        path="shop.jsonl",
        columns=["title", "note"],
        taxonomy=TREE,
        output_path="out.jsonl",
        min_score=0.5,
    )
    assert answer["counts"] == {"Clothing": 80, "Kitchen": 40}
    assert sorted(row["text"] for row in answer["least_sure"]) == sorted(TEXTS)
    assert "results" not in answer
    written = [json.loads(line) for line in (toolbox.folder / "out.jsonl").read_text().splitlines()]
    assert len(written) == 120
    assert written[1]["id"] == "p1" and written[1]["path"] == "Kitchen > Forks"
    assert len(written[1]["alternatives"]) == 2
    assert len(json.dumps(answer)) / 4 < 400


async def test_a_csv_file_holds_the_same_in_columns(toolbox: Toolbox) -> None:
    await toolbox.call(
        "classify_taxonomy", texts=TEXTS, taxonomy=TREE, output_path="out.csv", min_score=0.9
    )
    with (toolbox.folder / "out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["path"] for row in written] == [TREE[2], TREE[6], TREE[3]]
    assert written[0]["unsure"] == "True" and written[0]["id"] == ""
    assert len(written[0]["alternatives"].split(" | ")) == 2


async def test_rare_top_categories_are_summed_up(toolbox: Toolbox) -> None:
    labels = [f"label{n}" for n in range(30)]
    answer = await toolbox.call(
        "classify_taxonomy", texts=labels, taxonomy=labels, output_path="out.jsonl"
    )
    assert len(answer["counts"]) == 20 and answer["other_counts"] == 10


async def test_categories_of_less_than_a_hundredth_are_not_counted_one_by_one(
    toolbox: Toolbox,
) -> None:
    texts = ["forks"] * 150 + ["rakes", "bread"]
    answer = await toolbox.call(
        "classify_taxonomy", texts=texts, taxonomy=["forks", "rakes", "bread"], output_path="o.csv"
    )
    assert answer["counts"] == {"forks": 150} and answer["other_counts"] == 2


async def test_node_vectors_are_made_once_and_then_read_from_disk(toolbox: Toolbox) -> None:
    first = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert "Clothing > Shirts" in encoded(toolbox.worker)
    assert len(kept_files(toolbox)) == 1
    toolbox.worker.calls.clear()
    assert await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE) == first
    assert "Clothing > Shirts" not in encoded(toolbox.worker)
    assert [path.suffix for path in (toolbox.cache / "taxonomies").iterdir()].count(".parts") == 0


async def test_another_taxonomy_or_model_has_its_own_vectors(toolbox: Toolbox) -> None:
    for model, tree in (("auto", TREE), ("auto", TREE[:3]), ("org/other", TREE)):
        await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=tree, model=model)
    assert len(kept_files(toolbox)) == 3


async def test_new_weights_under_an_old_name_are_noticed(toolbox: Toolbox) -> None:
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    toolbox.worker.seed = "new weights"
    answer = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert [entry["path"] for entry in answer["results"]] == [TREE[2], TREE[6], TREE[3]]
    assert len(kept_files(toolbox)) == 1


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
async def test_a_broken_vector_file_is_made_again(
    toolbox: Toolbox, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    first = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    (file,) = kept_files(toolbox)
    file.unlink()
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE) == first
    assert "unreadable" in caplog.text


class InterruptedWorker(FakeWorker):
    """Refuses work after some texts, as a call that is cut short."""

    texts_left = 10**9

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        self.texts_left -= len(items)
        if self.texts_left < 0:
            raise QueueFull("too much is waiting")
        return await super().encode(model, items, params, progress=progress)


async def test_a_call_cut_short_leaves_the_next_one_less_to_do(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.node_vectors.PART_TEXTS", 4)
    worker = toolbox.worker = InterruptedWorker()
    worker.texts_left = 7
    text = await toolbox.error("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert text == "too much is waiting"
    done = set(encoded(worker)) - set(TEXTS)
    worker.texts_left = 10**9
    worker.calls.clear()
    answer = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    again = done & set(encoded(worker))
    assert len(done) == 5 and len(again) == 1  # only the probe
    assert [entry["path"] for entry in answer["results"]] == [TREE[2], TREE[6], TREE[3]]


async def test_a_call_that_would_be_late_says_so_and_the_next_ones_go_on(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.node_vectors.PART_TEXTS", 4)
    monkeypatch.setattr("sie_mcp.tools.long_work.MARGIN_S", 1e6)
    with anyio.fail_after(60):
        for done in (4, 8):
            text = await toolbox.error("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
            assert text == (
                f"taxonomy given is being prepared, once: {done} of 12 names are done, "
                "and the next call goes on from there"
            )
        answer = await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert len(answer["results"]) == 3


async def test_a_category_name_that_fails_is_an_error_with_its_reason(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify_taxonomy", texts=TEXTS, taxonomy=[*TREE, "FAIL"])
    assert text == "1 category names have no vector: no memory for this item"


async def test_two_calls_at_once_make_the_vectors_once(toolbox: Toolbox) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(lambda: toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE))
    assert encoded(toolbox.worker).count("Clothing > Shirts") == 1


async def test_a_call_waits_while_another_process_makes_them(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.long_work.LOCK_POLL_S", 0.01)
    await toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    (file,) = kept_files(toolbox)
    file.unlink()
    other = FileLock(file.with_suffix(".lock"))
    other.acquire()
    toolbox.reports.clear()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: toolbox.call("classify_taxonomy", texts=TEXTS, taxonomy=TREE))
            while not any("another process" in (m or "") for _, _, m in toolbox.reports):
                await anyio.sleep(0.01)
            assert kept_files(toolbox) == []
            other.release()
    assert kept_files(toolbox) == [file]


async def test_a_cache_folder_that_cannot_be_written_is_named(toolbox: Toolbox) -> None:
    toolbox.cache.write_text("a file, not a folder")
    text = await toolbox.error("classify_taxonomy", texts=TEXTS, taxonomy=TREE)
    assert text.startswith(f"cache_dir: {toolbox.cache}/taxonomies cannot be written (")
