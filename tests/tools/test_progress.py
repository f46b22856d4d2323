"""What a client hears while a call runs."""

import itertools

import pytest

from sie_mcp.config import Config
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.inputs import read_inputs
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


async def test_who_has_no_caller_tells_nobody(toolbox: Toolbox) -> None:
    toolbox.write("a.txt", "A text.")
    config = Config(allow=(toolbox.folder,))
    context = ToolContext(toolbox.worker, config)  # type: ignore[arg-type]
    inputs = await read_inputs(context, [], "a.txt", [], whole=True)
    assert inputs.texts == ["A text."]
    assert toolbox.reports == []


@pytest.mark.parametrize("tool", ["rerank", "embed", "classify_taxonomy", "extract_entities"])
async def test_reading_and_writing_files_are_reported(toolbox: Toolbox, tool: str) -> None:
    path = toolbox.write("a.csv", "text\nAnna\nBob\n")
    output = "out.npy" if tool == "embed" else "out.csv"
    more = {"rerank": {"query": "q"}, "classify_taxonomy": {"taxonomy": ["a", "b"]}}
    await toolbox.call(tool, path=path, output_path=output, **more.get(tool, {}))
    messages = [message for _, _, message in toolbox.reports]
    assert messages[0] == "reading a.csv" and messages[-1] == f"writing {output}"
    numbers = [done for done, _, _ in toolbox.reports]
    assert all(before < after for before, after in itertools.pairwise(numbers))
