"""Pictures beside texts in `classify_taxonomy`: the fake worker sees what their bytes say."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from sie_mcp import wire
from sie_mcp.tools.classification import COMPANION
from sie_mcp.tools.folders import Folders
from sie_mcp.tools.outputs import write_rows
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
TREE = ["Clothing > Shirts", "Clothing > Shoes", "Kitchen > Pots", "Kitchen > Forks"]
SEER = wire.ModelCard(name="seer", inputs=["text", "image"], outputs=["dense"])
FILE_CALL = {
    "path": "shop.csv",
    "columns": ["title"],
    "taxonomy": TREE,
    "output_path": "out.jsonl",
    "image_model": "seer",
    "image_column": "photo",
}


@pytest.fixture
def shop(toolbox: Toolbox) -> Toolbox:
    """A folder of pictures, and a model that sees them."""
    toolbox.worker.extra_cards = [SEER]
    for name, shown in {
        "pot.jpg": "pots kitchen",
        "fork.png": "forks",
        "bad.jpg": "BROKEN",
    }.items():
        toolbox.write(name, shown)
    return toolbox


async def classify(shop: Toolbox, texts: Sequence[Any], **more: Any) -> dict[str, Any]:
    arguments = {"texts": texts, "taxonomy": TREE, "image_model": "seer"} | more
    return await shop.call("classify_taxonomy", **arguments)


def pictures_sent(shop: Toolbox) -> list[str]:
    """What was shown to the image model beside names of categories, in order."""
    calls = [texts for _, model, texts in shop.worker.calls if model == "seer"]
    return [
        text for texts in calls for text in texts if text in ("pots kitchen", "forks", "BROKEN")
    ]


@pytest.mark.parametrize(
    "image",
    [
        "pot.jpg",
        base64.b64encode(b"pots kitchen").decode(),
        "data:image/png;base64," + base64.b64encode(b"pots kitchen").decode(),
        "Data:image/svg+xml.png;Base64," + base64.b64encode(b"pots kitchen").decode(),
    ],
    ids=["path", "base64", "data URI", "data URI in another case"],
)
async def test_a_picture_decides_where_the_text_does_not(shop: Toolbox, image: str) -> None:
    plain = await classify(shop, ["thing"], image_model="")
    assert plain["results"][0]["path"] != TREE[2] and "image_model" not in plain
    answer = await classify(shop, [{"text": "thing", "image": image}])
    assert answer["results"][0]["path"] == TREE[2] and answer["image_model"] == "seer"
    assert "image_error" not in answer["results"][0] and "failed_images" not in answer


async def test_a_text_that_is_clear_outweighs_its_picture(shop: Toolbox) -> None:
    answer = await classify(shop, [{"text": "shirts", "image": "pot.jpg"}])
    assert answer["results"][0]["path"] == TREE[0]


async def test_a_text_without_a_picture_is_classified_as_before(shop: Toolbox) -> None:
    # With a companion and as many texts the confidence is fitted to all of them.
    shop.worker.extra_cards.append(wire.ModelCard(name=COMPANION))
    texts = [f"{name} lot {n} of pots" for n in range(15) for name in ("shirts", "shoes", "x")]
    things = [f"thing {n}" for n in range(15)]
    plain = await classify(shop, [*texts, *things], image_model="")
    seen = [{"text": thing, "image": "fork.png"} for thing in things]
    mixed = await classify(shop, [*texts, *seen])
    assert mixed["companion"] == COMPANION
    assert mixed["results"][:45] == plain["results"][:45]
    assert {row["path"] for row in mixed["results"][45:]} == {TREE[3]}
    assert {row["path"] for row in plain["results"][45:]} != {TREE[3]}
    assert await classify(shop, [*texts, *things]) == plain


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ("bad.jpg", "the image is broken"),
        ("none.jpg", "no file 'none.jpg'"),
        ("/etc/passwd.png", "outside the allowed folders"),
        ("../x.jpg", "outside the allowed folders"),
        ("shop.csv", "is a .csv file"),
        ("https://example.com/a.jpg", "is a URL"),
        ("no base64!", "image: is no base64 (Only base64 data is allowed); send the image's bytes"),
        ("folder", "or a file's path"),
        (base64.b64encode(b"x" * 65).decode(), "max_image_bytes"),
        ("A" * 2_000, "max_image_bytes"),
    ],
)
async def test_a_picture_that_cannot_be_read_is_said_and_the_text_decides(
    shop: Toolbox, image: str, says: str
) -> None:
    shop.settings = {"max_image_bytes": 64}
    answer = await classify(shop, [{"text": "shoes", "image": image}, "forks"])
    first, second = answer["results"]
    assert first["path"] == TREE[1] and says in first["image_error"]
    assert second["path"] == TREE[3] and "image_error" not in second
    assert answer["failed_images"]["count"] == 1 and "failed" not in answer
    assert says in answer["failed_images"]["first"][0]


async def test_a_link_out_of_the_folder_is_not_read(shop: Toolbox, tmp_path: Path) -> None:
    outside = tmp_path / "secret.jpg"
    outside.write_text("pots kitchen")
    (shop.folder / "link.jpg").symlink_to(outside)
    answer = await classify(shop, [{"text": "shoes", "image": "link.jpg"}])
    assert "outside the allowed" in answer["results"][0]["image_error"]
    assert pictures_sent(shop) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"texts": [{"text": "a", "image": "pot.jpg"}]}, "no image_model"),
        ({"texts": ["a"], "image_model": "seer", "image_column": "photo"}, "goes with path"),
        ({"path": "shop.csv", "image_model": "seer"}, "in image_column"),
        ({"path": "shop.csv", "image_column": "photo"}, "no image_model"),
        (FILE_CALL | {"image_column": "foto"}, "did you mean 'photo'"),
        (FILE_CALL | {"path": "a.txt", "columns": []}, "leave `image_column` out"),
        (FILE_CALL | {"image_model": "toy-embedder"}, "does not compare images with texts"),
    ],
)
async def test_what_does_not_go_together_is_refused(
    shop: Toolbox, arguments: dict[str, Any], says: str
) -> None:
    shop.write("shop.csv", "title,photo\nthing,pot.jpg\n")
    shop.write("a.txt", "thing\n")
    assert says in await shop.error("classify_taxonomy", **{"taxonomy": TREE} | arguments)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("is_long", [True, False], ids=["to a file", "listed"])
async def test_a_column_names_the_pictures_of_a_file(
    shop: Toolbox, ending: str, is_long: bool
) -> None:
    rows = [{"title": "thing", "photo": "pot.jpg"}, {"title": "thing", "photo": "fork.png"}]
    rows += [{"title": "shoes", "photo": ""}, {"title": "shoes", "photo": "bad.jpg"}]
    (path,) = Folders((shop.folder,)).inside(f"shop{ending}", "path")
    write_rows(path, {"title": "text", "photo": "text"}, rows)
    call = FILE_CALL | {"path": path.name, "columns": [], "image_column": "PHOTO"}
    answer = await shop.call("classify_taxonomy", **call | ({} if is_long else {"output_path": ""}))
    found = lines(shop) if is_long else answer["results"]
    assert [row["path"] for row in found] == [TREE[2], TREE[3], TREE[1], TREE[1]]
    assert [bool(row.get("image_error")) for row in found] == [False, False, False, True]
    assert answer["failed_images"]["first"] == ["3: image: the image is broken or cut off"]
    assert answer["count"] == 4 and answer["image_model"] == "seer"


async def test_a_file_with_pictures_is_gone_on_with(
    shop: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.categories.file_run.BLOCK_TEXTS", 1)
    shop.write("shop.csv", "title,photo\nthing,pot.jpg\nshoes,bad.jpg\nthing,fork.png\n")
    whole = await shop.call("classify_taxonomy", **FILE_CALL)
    written = (shop.folder / "out.jsonl").read_bytes()
    (shop.folder / "out.jsonl").unlink()
    await cut_short(shop)
    shop.worker.calls.clear()
    answer = await shop.call("classify_taxonomy", **FILE_CALL)
    assert pictures_sent(shop) == ["BROKEN", "forks"]
    assert answer.pop("resumed") == 1 and answer == whole
    assert (shop.folder / "out.jsonl").read_bytes() == written


@pytest.mark.parametrize("change", ["picture", "model"])
async def test_a_changed_picture_or_image_model_is_begun_anew(
    shop: Toolbox, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("sie_mcp.tools.categories.file_run.BLOCK_TEXTS", 1)
    shop.write("shop.csv", "title,photo\nthing,pot.jpg\nshoes,\n")
    await cut_short(shop)
    if change == "picture":
        shop.write("pot.jpg", "forks")
        os.utime(shop.folder / "pot.jpg", (1, 1))
    else:
        shop.worker.extra_cards.append(SEER.model_copy(update={"name": "other"}))
    more = {"image_model": "other"} if change == "model" else {}
    answer = await shop.call("classify_taxonomy", **FILE_CALL | more)
    assert "resumed" not in answer
    assert lines(shop)[0]["path"] == (TREE[3] if change == "picture" else TREE[2])


async def cut_short(shop: Toolbox) -> None:
    """Let a call end after its first block."""
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(60):
        patch.setattr("sie_mcp.tools.long_work.MARGIN_S", 1e6)
        # The first of these calls may only have read the categories.
        for _ in range(5):
            text = await shop.error("classify_taxonomy", **FILE_CALL)
            if text.startswith("1 of"):
                return
    raise AssertionError(text)


def lines(shop: Toolbox) -> list[dict[str, Any]]:
    text = (shop.folder / "out.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
