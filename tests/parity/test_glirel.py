"""GLiREL's probabilities are those of the glirel package, alone, in a batch and in any order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.adapters.checkpoint.gliner_settings import BACKBONES
from sie_mcp.adapters.words import split_words
from tests.parity.glirels import BY_NAME, EXPECTED, RELATIONS, TEXTS, save_glirel
from tests.running import load, run

ANSWERS = json.loads(EXPECTED.read_text("utf-8"))


def ask(texts: Any, threshold: float = 0.0) -> wire.ExtractRequest:
    items = []
    for text, spans in texts:
        words = split_words(text)
        places = [{"start": words[first][0], "end": words[last][1]} for first, last in spans]
        items.append({"text": text, "spans": places})
    structure = {"relations": dict.fromkeys(RELATIONS, "")}
    options = {"structure": structure, "threshold": threshold}
    return wire.ExtractRequest.model_validate({"items": items, "params": {"options": options}})


def scores(item: wire.ExtractedItem) -> np.ndarray:
    """Return `(num_pairs, num_relations)`, pairs by head, then tail."""
    found: dict[Any, dict[str, float]] = {}
    for one in item.relations:
        place = (one.head_start, one.head_end, one.tail_start, one.tail_end)
        found.setdefault(place, {})[one.relation] = one.score
    return np.array([[found[pair][name] for name in RELATIONS] for pair in sorted(found)])


@pytest.mark.parametrize("name", BY_NAME)
def test_probabilities_are_those_of_the_package(
    name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    kind = BY_NAME[name]
    monkeypatch.setitem(BACKBONES, "tiny", kind.encoder)
    save_glirel(tmp_path, kind)
    adapter = load(tmp_path)
    together = run(adapter, ask(TEXTS)).items
    reversed_order = run(adapter, ask(TEXTS), order=[1, 0]).items
    for place, text in enumerate(TEXTS):
        alone = run(adapter, ask([text])).items[0]
        expected = np.array(ANSWERS[name][place])
        assert np.ptp(expected) > 1e-2
        for found in (alone, together[place], reversed_order[place]):
            assert scores(found) == pytest.approx(expected, abs=1e-5)
