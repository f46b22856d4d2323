"""What is classified counts as a whole, and its beginning once more."""

import numpy as np
import pytest

from sie_mcp.tools.item_vectors import head
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fork. Made of steel.", "Fork"),
        ("Fork\nMade of steel", "Fork"),
        (" 4.5 inch knife! Sharp. ", "4.5 inch knife"),
        ("刀。とても鋭い", "刀"),
        ("Fork", ""),
        ("Fork. ", ""),
        (". Fork", ""),
        ("long " * 50 + ". end", ""),
    ],
)
def test_the_head_of_a_text_is_its_title_or_first_sentence(text: str, expected: str) -> None:
    assert head(text) == expected


async def test_the_head_counts_half_as_much_as_the_whole(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "classify_taxonomy", texts=["shirts. wash cold"], taxonomy=["shirts", "wash"], top_k=1
    )
    vector = toolbox.worker.vector
    item = (vector("shirts. wash cold") + 0.5 * vector("shirts")) / 1.5
    (entry,) = answer["results"]
    assert entry["path"] == "shirts"
    assert entry["score"] == pytest.approx(float(np.dot(item, vector("shirts"))), abs=1e-4)


async def test_a_text_that_fails_leaves_each_head_with_its_own_text(toolbox: Toolbox) -> None:
    texts = ["a. FAIL", "shirts. wash cold", "wash. dry"]
    answer = await toolbox.call("classify_taxonomy", texts=texts, taxonomy=["shirts", "wash"])
    assert [entry["index"] for entry in answer["results"]] == [1, 2]
    assert [entry["path"] for entry in answer["results"]] == ["shirts", "wash"]
