"""`map_taxonomy`, as an agent calls it: counterparts, files, and what it refuses."""

import csv
import json

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
SOURCE = ["Clothing > Shirts", "Clothing > Shoes", "Kitchen > Forks"]
TARGET = ["Fashion > Clothing Shirts", "Fashion > Clothing Shoes", "Home > Kitchen > Forks", "Pets"]


async def test_every_category_gets_its_counterpart_with_alternatives(toolbox: Toolbox) -> None:
    answer = await toolbox.call("map_taxonomy", source=SOURCE, target=TARGET, top_k=2)
    assert [row["target_path"] for row in answer["results"]] == TARGET[:3]
    assert [row["source_path"] for row in answer["results"]] == SOURCE
    assert all(len(row["alternatives"]) == 1 for row in answer["results"])
    assert all(0 < row["probability"] <= 1 for row in answer["results"])
    assert answer["count"] == 3 and "num_same_path" not in answer


async def test_a_taxonomy_maps_to_itself(toolbox: Toolbox) -> None:
    answer = await toolbox.call("map_taxonomy", source=TARGET, target=TARGET)
    assert answer["num_same_path"] == 4


async def test_a_file_holds_the_mapping_and_the_answer_the_least_sure(toolbox: Toolbox) -> None:
    toolbox.write("mine.csv", "id,path\n" + "".join(f"{n},{p}\n" for n, p in enumerate(SOURCE)))
    toolbox.write("theirs.json", json.dumps({f"t{n}": path for n, path in enumerate(TARGET)}))
    call = {"source": "mine.csv", "target": "theirs.json", "min_confidence": 0.9999}
    for name in ("out.jsonl", "out.csv"):
        answer = await toolbox.call("map_taxonomy", **call, output_path=name)
        assert "results" not in answer and len(answer["least_sure"]) == answer["num_unsure"] == 3
    rows = [json.loads(line) for line in (toolbox.folder / "out.jsonl").read_text().splitlines()]
    assert [(row["source_id"], row["target_id"]) for row in rows] == [
        ("0", "t0"), ("1", "t1"), ("2", "t2"),
    ]  # fmt: skip
    with (toolbox.folder / "out.csv").open(newline="") as file:
        (first, *_) = csv.DictReader(file)
    assert first["target_path"] == TARGET[0] and len(first["alternatives"].split(" | ")) == 2


async def test_a_long_mapping_in_the_answer_is_cut_and_counted(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 400}
    labels = [f"label {n}" for n in range(100)]
    answer = await toolbox.call("map_taxonomy", source=labels, target=TARGET)
    assert len(answer["results"]) + answer["omitted"] == 100


async def test_errors_name_the_argument(toolbox: Toolbox) -> None:
    text = await toolbox.error("map_taxonomy", source="none.csv", target=TARGET)
    assert text.startswith("source: no file 'none.csv'")
    text = await toolbox.error("map_taxonomy", source=[], target=TARGET)
    assert text == "source is empty; send at least one path such as A > B > C"
    text = await toolbox.error("map_taxonomy", source=TARGET, target=["A", " "])
    assert text == "target[1]: '' has an empty level; write A > B > C"
    toolbox.write("mine.txt", "A\nA\n")
    text = await toolbox.error("map_taxonomy", source="mine.txt", target=TARGET)
    assert text == "mine.txt, line 2: 'A' is there already, in line 1; keep one"
    text = await toolbox.error("map_taxonomy", source=TARGET, target="")
    assert text.startswith("no target ''; built in: shopify, ")
    text = await toolbox.error("map_taxonomy", source=["FAIL"], target=TARGET)
    assert text == "source: 'FAIL' cannot be encoded: no memory for this item"


async def test_too_many_pairs_are_refused(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.map_taxonomy.MAX_PAIRS", 11)
    text = await toolbox.error("map_taxonomy", source=SOURCE, target=TARGET)
    assert text.startswith("source and target have 12 pairs; the limit is 11; map a part")
