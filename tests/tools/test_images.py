"""`search_images` and `classify_images`, as an agent calls them, over a worker that sees words."""

import json
import os
from pathlib import Path

import pytest

from sie_mcp import wire
from sie_mcp.tools.image_files import DEFAULT_MODEL, MAX_TOTAL_BYTES, PART_BYTES, PART_IMAGES
from sie_mcp.tools.index.image_index import RULES
from sie_mcp.tools.vectors import PROBE
from tests.tools.conftest import Toolbox

pytest.importorskip("lancedb")
pytestmark = pytest.mark.anyio
QUERY = "a red shoe"
PICTURES = {
    "shoes/red.jpg": "a red shoe on a table",
    "shoes/blue.PNG": "a blue shoe",
    "bags/one.webp": "a leather bag",
}


def fill(toolbox: Toolbox, files: dict[str, str]) -> None:
    """Write files as they were an hour ago."""
    for name, content in files.items():
        path = toolbox.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        os.utime(path, (1_700_000_000, 1_700_000_000))


def sent(toolbox: Toolbox, primitive: str = "encode") -> list[str]:
    """What was sent since the last look, but the query and the probe."""
    found = [one for kind, _, texts in toolbox.worker.calls if kind == primitive for one in texts]
    toolbox.worker.calls.clear()
    return [one for one in found if one not in (QUERY, PROBE)]


@pytest.fixture
def filled(toolbox: Toolbox) -> Toolbox:
    fill(toolbox, {**PICTURES, "notes.txt": "a red shoe, in words"})
    return toolbox


async def test_the_picture_that_shows_it_comes_first(filled: Toolbox) -> None:
    answer = await filled.call("search_images", query=QUERY)
    assert [one["path"] for one in answer["results"]][:2] == ["shoes/red.jpg", "shoes/blue.PNG"]
    assert answer["num_images"] == 3
    assert answer["results"][0].keys() == {"path", "score"}
    assert answer["model"] == DEFAULT_MODEL


async def test_a_picture_finds_those_that_resemble_it(filled: Toolbox) -> None:
    answer = await filled.call("search_images", like="shoes/blue.PNG", top_k=2)
    assert [one["path"] for one in answer["results"]] == ["shoes/blue.PNG", "shoes/red.jpg"]
    assert answer["results"][0]["score"] == 1.0


async def test_a_second_search_reads_only_what_changed(filled: Toolbox) -> None:
    await filled.call("search_images", query=QUERY)
    assert len(sent(filled)) == 3
    await filled.call("search_images", query=QUERY)
    assert sent(filled) == []
    fill(filled, {"new.gif": "a green hat"})
    (filled.folder / "bags/one.webp").unlink()
    (filled.folder / "shoes/red.jpg").rename(filled.folder / "moved.jpg")
    answer = await filled.call("search_images", query=QUERY)
    assert sent(filled) == ["a green hat"]
    found = [one["path"] for one in answer["results"]]
    assert found[0] == "moved.jpg"
    assert sorted(found) == ["moved.jpg", "new.gif", "shoes/blue.PNG"]


async def test_paths_limit_the_search(filled: Toolbox) -> None:
    await filled.call("search_images", query=QUERY)
    for paths, expected in [
        (["bags"], {"bags/one.webp"}),
        ("shoes/red.jpg", {"shoes/red.jpg"}),
        (["**/*.PNG"], {"shoes/blue.PNG"}),
    ]:
        answer = await filled.call("search_images", query=QUERY, paths=paths)
        assert {one["path"] for one in answer["results"]} == expected


async def test_a_broken_picture_is_named_and_not_read_again(filled: Toolbox) -> None:
    fill(filled, {"bad.jpg": "BROKEN"})
    answer = await filled.call("search_images", query=QUERY)
    assert answer["skipped"]["count"] == 1
    assert answer["skipped"]["first"] == ["bad.jpg: the image is broken or cut off"]
    sent(filled)
    again = await filled.call("search_images", query=QUERY)
    assert (again["skipped"], sent(filled)) == (answer["skipped"], [])


async def test_a_picture_that_failed_for_now_is_sent_again(filled: Toolbox) -> None:
    fill(filled, {"late.jpg": "FAIL"})
    first = await filled.call("search_images", query=QUERY)
    assert "skipped" not in first
    sent(filled)
    await filled.call("search_images", query=QUERY)
    assert sent(filled) == ["FAIL"]


async def test_a_file_too_large_is_skipped_by_its_limit(filled: Toolbox) -> None:
    filled.settings = {"max_image_bytes": 15}
    answer = await filled.call("search_images", query=QUERY)
    assert [one["path"] for one in answer["results"]] == ["shoes/blue.PNG", "bags/one.webp"]
    assert "max_image_bytes" in answer["skipped"]["first"][0]


async def test_vectors_of_another_model_of_the_same_name_are_made_again(filled: Toolbox) -> None:
    await filled.call("search_images", query=QUERY)
    sent(filled)
    filled.worker.seed = "other"
    await filled.call("search_images", query=QUERY)
    assert len(sent(filled)) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "either query, in words, or like"),
        ({"query": "a", "like": "shoes/red.jpg"}, "either query, in words, or like"),
        ({"like": "notes.txt"}, "is a .txt file; known: .jpg"),
        ({"like": "/etc/passwd"}, "outside the allowed folders"),
        ({"query": "a", "paths": ["../.."]}, "outside the allowed folders"),
        ({"query": "a", "paths": ["notes.txt"]}, "no .jpg, .jpeg, .png"),
        ({"query": "a", "paths": ["https://example.com/a.jpg"]}, "is a URL"),
    ],
)
async def test_what_cannot_be_searched_is_refused(
    filled: Toolbox, arguments: dict[str, object], says: str
) -> None:
    assert says in await filled.error("search_images", **arguments)


async def test_a_link_out_of_the_folder_is_not_read(filled: Toolbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jpg"
    outside.write_text("a red shoe, secret")
    (filled.folder / "link.jpg").symlink_to(outside)
    await filled.call("search_images", query=QUERY)
    assert all("secret" not in text for text in sent(filled))


async def test_a_model_that_is_up_and_reads_images_is_taken(filled: Toolbox) -> None:
    filled.worker.extra_cards = [
        wire.ModelCard(name="seer", inputs=["text", "image"], loaded=True),
    ]
    assert (await filled.call("search_images", query=QUERY))["model"] == "seer"


async def test_pictures_are_sorted_into_classes(filled: Toolbox) -> None:
    answer = await filled.call("classify_images", labels=["shoe", "bag"])
    assert answer["results"] == [
        {"path": "bags/one.webp", "labels": [{"label": "bag", "score": 0.9123}]},
        {"path": "shoes/blue.PNG", "labels": [{"label": "shoe", "score": 0.9123}]},
        {"path": "shoes/red.jpg", "labels": [{"label": "shoe", "score": 0.9123}]},
    ]
    assert answer["counts"] == {"shoe": 2, "bag": 1}


async def test_no_class_over_the_threshold_is_no_class(filled: Toolbox) -> None:
    answer = await filled.call("classify_images", labels="bag", threshold=0.5, paths=["shoes"])
    assert [one["labels"] for one in answer["results"]] == [[], []]
    assert answer["counts"] == {}


async def test_all_classes_go_to_a_file_and_the_answer_is_short(filled: Toolbox) -> None:
    fill(filled, {f"many/{n:03}.jpg": "a shoe" for n in range(100)} | {"bad.jpg": "BROKEN"})
    answer = await filled.call(
        "classify_images", labels=["shoe", "bag"], top_k=2, output_path="out.jsonl"
    )
    rows = [json.loads(line) for line in (filled.folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 103 * 2 + 1
    assert rows[-1] == {"path": "bad.jpg", "error": "the image is broken or cut off"}
    assert answer["omitted"] > 50
    assert answer["failed"]["count"] == 1
    assert answer["counts"] == {"shoe": 102, "bag": 1}
    assert len(json.dumps(answer)) / 4 < 1_000


async def test_when_every_picture_fails_the_reason_is_the_answer(toolbox: Toolbox) -> None:
    fill(toolbox, {"bad.jpg": "BROKEN"})
    assert "broken or cut off" in await toolbox.error("classify_images", labels=["shoe"])


async def test_pictures_are_sent_in_parts(toolbox: Toolbox) -> None:
    fill(toolbox, {f"{n:03}.jpg": f"a shoe {n}" for n in range(2 * PART_IMAGES + 1)})
    await toolbox.call("classify_images", labels=["shoe"])
    sizes = [len(texts) for kind, _, texts in toolbox.worker.calls if kind == "extract"]
    assert sizes == [PART_IMAGES, PART_IMAGES, 1]


def test_what_is_read_at_once_is_bounded() -> None:
    assert PART_BYTES <= 16 * 1024 * 1024 < MAX_TOTAL_BYTES
    assert RULES.startswith("images")
