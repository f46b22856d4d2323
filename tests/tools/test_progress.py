"""What a client hears while a call runs."""

import itertools

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("rerank", {"query": "a", "documents": ["b", "c"]}),
        ("filter_context", {"query": "a", "text": "A sentence. " * 500}),
        ("extract_entities", {"texts": ["a"]}),
        ("embed", {"texts": ["a", "b"], "compare_to": ["c"]}),
        ("classify_taxonomy", {"texts": ["a"], "taxonomy": ["a", "b"]}),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_loading_model_is_reported_with_numbers_that_only_grow(
    toolbox: Toolbox, tool: str, arguments: dict[str, object], mode: str
) -> None:
    toolbox.mode = mode
    toolbox.worker.loading = 3
    await toolbox.call(tool, **arguments)
    assert any("loading auto (2 s)" in (message or "") for _, _, message in toolbox.reports)
    numbers = [done for done, _, _ in toolbox.reports]
    assert all(before < after for before, after in itertools.pairwise(numbers))
    last, total, _ = toolbox.reports[-1]
    assert total is not None and last <= total + 1
