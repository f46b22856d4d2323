"""`embed`, as an agent calls it."""

import base64
import json

import numpy as np
import pytest

from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import DIMS

pytestmark = pytest.mark.anyio
TEXTS = ["blue shirt", "red shoes", "blue shirt", "a red hat and red shoes"]


async def test_pairs_are_what_comes_back_by_default_and_no_vectors(toolbox: Toolbox) -> None:
    answer = await toolbox.call("embed", texts=TEXTS, top_k=2)
    assert answer["count"] == 4 and answer["dims"] == DIMS
    assert answer["pairs"][0] == {"a": 0, "b": 2, "score": 1.0}
    assert (answer["pairs"][1]["a"], answer["pairs"][1]["b"]) == (1, 3)
    assert "vectors" not in answer


async def test_equal_pairs_come_in_the_order_of_the_texts(toolbox: Toolbox) -> None:
    answer = await toolbox.call("embed", texts=["same"] * 5, top_k=4)
    assert [(pair["a"], pair["b"]) for pair in answer["pairs"]] == [(0, 1), (0, 2), (0, 3), (0, 4)]


async def test_one_text_has_no_pairs(toolbox: Toolbox) -> None:
    assert (await toolbox.call("embed", texts=["one"]))["pairs"] == []


async def test_the_nearest_of_another_list_come_for_each_text(toolbox: Toolbox) -> None:
    others = ["green hat", "shirt blue", "shoes"]
    answer = await toolbox.call("embed", texts=TEXTS[:2], compare_to=others, top_k=2)
    assert [match["nearest"][0]["index"] for match in answer["matches"]] == [1, 2]
    assert all(len(match["nearest"]) == 2 for match in answer["matches"])
    assert "pairs" not in answer


async def test_texts_are_documents_unless_they_are_called_queries(toolbox: Toolbox) -> None:
    await toolbox.call("embed", texts=TEXTS)
    await toolbox.call("embed", texts=TEXTS, input_type="query", compare_to=["hat"])
    assert toolbox.worker.roles == [False, True, False]


async def test_equal_texts_are_encoded_once(toolbox: Toolbox) -> None:
    await toolbox.call("embed", texts=TEXTS)
    assert toolbox.worker.calls == [("encode", "auto", [TEXTS[0], TEXTS[1], TEXTS[3]])]


async def test_matches_beyond_the_limit_are_counted(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 200}
    answer = await toolbox.call("embed", texts=TEXTS * 20, compare_to=TEXTS)
    assert len(answer["matches"]) + answer["omitted"] == 80
    assert "smaller top_k" in answer["hint"]


async def test_vectors_come_back_only_on_request_and_as_many_as_fit(toolbox: Toolbox) -> None:
    answer = await toolbox.call("embed", texts=TEXTS, return_vectors=True)
    assert len(answer["vectors"]) + answer.get("omitted", 0) == 4
    first = answer["vectors"][0]["values"]
    np.testing.assert_allclose(first, toolbox.worker.vector(TEXTS[0]), atol=1e-5)
    toolbox.settings = {"max_result_tokens": 100}
    answer = await toolbox.call("embed", texts=TEXTS, return_vectors=True)
    assert answer["vectors"] == [] and answer["omitted"] == 4
    assert "output_path" in answer["hint"]


async def test_base64_holds_the_same_vector_as_float16(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "embed", texts=TEXTS, return_vectors=True, vector_format="base64_float16"
    )
    values = np.frombuffer(base64.b64decode(answer["vectors"][1]["base64"]), "<f2")
    np.testing.assert_allclose(values, toolbox.worker.vector(TEXTS[1]), atol=1e-3)


async def test_a_npy_file_has_a_row_for_each_row_of_the_source(toolbox: Toolbox) -> None:
    toolbox.write("shop.csv", 'title\nblue shirt\n""\nFAIL\nred hat\n')
    answer = await toolbox.call("embed", path="shop.csv", output_path="vectors.npy")
    assert answer["output_path"] == str(toolbox.folder / "vectors.npy")
    assert answer["shape"] == [4, DIMS] and answer["blank_rows"] == 1
    rows = np.load(toolbox.folder / "vectors.npy", allow_pickle=False)
    assert rows.dtype == np.float32
    assert list(np.isnan(rows).any(axis=1)) == [False, True, True, False]
    np.testing.assert_array_equal(rows[3], toolbox.worker.vector("red hat"))
    assert sorted(path.name for path in toolbox.folder.iterdir()) == ["shop.csv", "vectors.npy"]


async def test_a_jsonl_file_has_a_line_for_each_vector(toolbox: Toolbox) -> None:
    texts = [{"id": "x", "text": "blue"}, "red"]
    answer = await toolbox.call("embed", texts=texts, output_path="vectors.jsonl")
    assert answer["shape"] == [2, DIMS] and "pairs" not in answer
    lines = (toolbox.folder / "vectors.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["index"] == 0 and first["id"] == "x"
    np.testing.assert_allclose(first["vector"], toolbox.worker.vector("blue"))


async def test_a_file_that_exists_is_never_overwritten(toolbox: Toolbox) -> None:
    toolbox.write("vectors.npy", "mine")
    text = await toolbox.error("embed", texts=TEXTS, output_path="vectors.npy")
    assert text == "output_path: 'vectors.npy' exists and is not overwritten; choose another name"
    assert (toolbox.folder / "vectors.npy").read_text() == "mine"
    assert toolbox.worker.calls == []


async def test_truncated_texts_are_counted(toolbox: Toolbox) -> None:
    answer = await toolbox.call("embed", texts=["word " * 60, "short"])
    assert answer["num_truncated"] == 1


async def test_a_pair_under_the_callers_rows_survives_blank_ones(toolbox: Toolbox) -> None:
    toolbox.write("list.txt", "blue shirt\n\nred\nblue shirt\n")
    answer = await toolbox.call("embed", path="list.txt", top_k=1)
    assert answer["pairs"] == [{"a": 0, "b": 3, "score": 1.0}]


async def test_many_texts_are_compared_in_blocks(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"word{n} and w{n % 7}" for n in range(40)]
    whole = await toolbox.call("embed", texts=texts, top_k=9)
    monkeypatch.setattr("sie_mcp.tools.similarity.BLOCK_SCORES", 100)
    assert await toolbox.call("embed", texts=texts, top_k=9) == whole
