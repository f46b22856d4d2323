"""A mapping is gone on with where it was, and read again where nothing has changed."""

import json
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import anyio
import pytest

from sie_mcp.tools.categories import mapping
from sie_mcp.tools.categories.choice import Classification
from sie_mcp.tools.categories.seen import Seen
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.vectors import PROBE
from tests.tools.categories.killed_mapping import BLOCK_NODES, CALL, SOURCE, TARGET
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were put into the target, in order; blocks are small."""
    monkeypatch.setattr(mapping, "MAX_BLOCK_NODES", BLOCK_NODES)
    texts: list[str] = []
    decide = Classifier.decide

    def heard(classifier: Classifier, seen: Seen) -> Classification:
        texts.extend(seen.texts)
        return decide(classifier, seen)

    monkeypatch.setattr(Classifier, "decide", heard)
    return texts


def encoded(toolbox: Toolbox) -> list[str]:
    """What the worker was asked for, but for what tells a model's weights."""
    return [text for _, _, texts in toolbox.worker.calls for text in texts if text != PROBE]


def journals(toolbox: Toolbox) -> list[Path]:
    return sorted((toolbox.cache / "taxonomies" / "mappings").glob(".sie-*.journal"))


async def cut_short(toolbox: Toolbox) -> None:
    """Let a call end before its deadline, with one block done."""
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(60):
        patch.setattr("sie_mcp.tools.categories.block_run.is_late", lambda _: True)
        text = await toolbox.error("map_taxonomy", **CALL)
    assert text == (
        f"{BLOCK_NODES} of 30 categories are mapped and kept; the same call again goes on from "
        "there"
    )


async def test_a_killed_call_repeats_nothing_that_was_done(
    toolbox: Toolbox, decided: list[str]
) -> None:
    command = [sys.executable, "-m", "tests.tools.categories.killed_mapping"]
    ended = subprocess.run(
        [*command, str(toolbox.folder), str(toolbox.cache), "2"], timeout=90, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert not (toolbox.folder / "out.jsonl").exists()
    answer = await toolbox.call("map_taxonomy", **CALL)
    assert decided == SOURCE[2 * BLOCK_NODES :] and encoded(toolbox) == []
    assert answer["resumed"] == 2 * BLOCK_NODES and answer["count"] == 30
    assert any(message == "mapping categories" for _, _, message in toolbox.reports)

    toolbox.cache = toolbox.cache / "other"
    whole = await toolbox.call("map_taxonomy", **CALL | {"output_path": "whole.jsonl"})
    assert "resumed" not in whole
    written = (toolbox.folder / "out.jsonl").read_bytes()
    assert (toolbox.folder / "whole.jsonl").read_bytes() == written


async def test_a_second_call_only_reads(toolbox: Toolbox, decided: list[str]) -> None:
    first = await toolbox.call("map_taxonomy", **CALL)
    decided.clear()
    toolbox.worker.calls.clear()
    for output in ("again.csv", ""):
        again = await toolbox.call("map_taxonomy", **CALL | {"output_path": output})
        assert again["resumed"] == 30 and decided == encoded(toolbox) == []
        assert again["mean_probability"] == first["mean_probability"]
    rows = [json.loads(line) for line in (toolbox.folder / "out.jsonl").read_text().splitlines()]
    assert rows == again["results"]


async def test_two_calls_at_once_map_each_category_once(
    toolbox: Toolbox, decided: list[str]
) -> None:
    answers = []

    async def call(output: str) -> None:
        answers.append(await toolbox.call("map_taxonomy", **CALL | {"output_path": output}))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call, "one.jsonl")
            group.start_soon(call, "two.jsonl")
    assert sorted(decided) == sorted(SOURCE)
    assert sorted(answer.get("resumed", 0) for answer in answers) == [0, 30]
    one, two = ((toolbox.folder / f"{name}.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    "change",
    [{"top_k": 1}, {"min_confidence": 0.5}, {"target": TARGET[:3]}, {"source": SOURCE[:9]}],
)
async def test_other_taxonomies_or_options_are_other_work(
    toolbox: Toolbox, decided: list[str], change: dict[str, object]
) -> None:
    await toolbox.call("map_taxonomy", **CALL)
    answer = await toolbox.call("map_taxonomy", **CALL | {"output_path": ""} | change)
    assert "resumed" not in answer and len(journals(toolbox)) == 2


async def test_the_vectors_of_both_taxonomies_are_kept(
    toolbox: Toolbox, decided: list[str]
) -> None:
    await toolbox.call("map_taxonomy", **CALL)
    toolbox.worker.calls.clear()
    await toolbox.call("map_taxonomy", **CALL | {"output_path": "", "top_k": 1})
    assert encoded(toolbox) == [] and len(decided) == 60


async def test_new_weights_under_an_old_name_are_begun_anew(
    toolbox: Toolbox, decided: list[str]
) -> None:
    await cut_short(toolbox)
    toolbox.worker.seed = "new weights"
    answer = await toolbox.call("map_taxonomy", **CALL)
    assert "resumed" not in answer and len(journals(toolbox)) == 1


async def test_a_category_above_the_likeliest_is_read_back_as_it_was(toolbox: Toolbox) -> None:
    tree = ["Kitchen > Forks", "Kitchen > Knives", "Garden > Rakes"]
    call = {"source": ["kitchen"], "target": tree}
    sure = (await toolbox.call("map_taxonomy", **call))["results"][0]["probability"]
    call["min_confidence"] = min(1.0, sure + 0.01)
    first = await toolbox.call("map_taxonomy", **call)
    again = await toolbox.call("map_taxonomy", **call)
    assert first["results"][0]["target_path"] == "Kitchen"
    assert again["results"] == first["results"] and again["resumed"] == 1


async def test_the_oldest_mappings_go_when_there_are_too_many(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MAX_KEPT", 2)
    for top_k in (1, 2, 3):
        await toolbox.call("map_taxonomy", source=SOURCE, target=TARGET, top_k=top_k)
    assert len(journals(toolbox)) == 2
    answer = await toolbox.call("map_taxonomy", source=SOURCE, target=TARGET, top_k=2)
    assert answer["resumed"] == 30
    answer = await toolbox.call("map_taxonomy", source=SOURCE, target=TARGET, top_k=1)
    assert "resumed" not in answer


async def test_no_text_of_a_taxonomy_is_kept(toolbox: Toolbox) -> None:
    await toolbox.call("map_taxonomy", source=["Secret shirts"], target=["Hidden > Shirts"])
    files = [path for path in toolbox.cache.rglob("*") if path.is_file()]
    assert files and not any(
        word in path.read_bytes().lower() for path in files for word in (b"secret", b"hidden")
    )


@pytest.mark.parametrize("entry", [3, [[], 0.5], [[[9, 1]], 0.5], [[[0, 1]], "x"], [[0], 0.5]])
async def test_an_entry_that_says_something_else_is_refused(
    toolbox: Toolbox, entry: object
) -> None:
    await toolbox.call("map_taxonomy", source=["shirts"], target=TARGET)
    (journal,) = journals(toolbox)
    first, *_ = journal.read_bytes().splitlines()
    data = json.dumps(["0", entry]).encode()
    journal.write_bytes(first + f"\n{zlib.crc32(data):08x} ".encode() + data + b"\n")
    text = await toolbox.error("map_taxonomy", source=["shirts"], target=TARGET)
    assert text == f"{journal} is broken; delete it and call again"


async def test_a_cache_that_cannot_be_written_is_named(toolbox: Toolbox) -> None:
    await toolbox.call("classify_taxonomy", texts=["shirts"], taxonomy=TARGET)
    mappings = toolbox.cache / "taxonomies" / "mappings"
    mappings.write_text("in the way")
    text = await toolbox.error("map_taxonomy", source=["shirts"], target=TARGET)
    assert text.startswith("cache_dir: ") and "mappings cannot be written" in text
    mappings.unlink()
    for digit in "0123456789abcdef":
        (mappings / f"{digit}.lock").mkdir(parents=True)
    again = await toolbox.error("map_taxonomy", source=["shirts"], target=TARGET)
    assert again.startswith("cache_dir: ") and "mappings cannot be written" in again
