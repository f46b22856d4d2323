"""The examples of docs/client.md run, in order and as they stand, against a live gateway."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(live, capsys):
    assert len(EXAMPLES) == 5
    names = {"URL": live}
    for example in EXAMPLES:
        if example.startswith("# needs qdrant-client"):
            pytest.importorskip("qdrant_client")
        exec(compile(example, "docs/client.md", "exec"), names)
    said = capsys.readouterr().out
    assert "200 200 encode potion-base-8M" in said
    assert "no-such-model" in said
