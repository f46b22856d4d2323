"""A part of the quality figures that is measured anew leaves the others as they are."""

import json

from evals.quality import Figure, record


def test_one_figure_is_written_among_the_others(tmp_path) -> None:
    first, second = Figure("a", "one", 0.1, None), Figure("b", "two", 0.2, 0.2)
    record([first, second], 9.0, keeps_others=False, folder=tmp_path)
    record([Figure("a", "one", 0.3, None)], 1.0, keeps_others=True, folder=tmp_path)
    found = json.loads((tmp_path / "quality.json").read_text())
    assert [(one["measure"], one["value"]) for one in found["figures"]] == [
        ("two", 0.2),
        ("one", 0.3),
    ]
    assert found["seconds"] == 9.0
