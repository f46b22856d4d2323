"""Writes relex_expected.json, what the gliner package finds and links.

Run as `python -m tests.parity.relex_reference`, in an environment of its own with
`pip install gliner==0.2.29`, which takes transformers below 5.17.
"""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gliner import GLiNER

from tests.parity.gliner_reference import check_names
from tests.parity.gliners import Kind
from tests.parity.relexes import EXPECTED, KINDS, QUESTIONS, TEXTS, save_relex


def main() -> None:
    """Run every checkpoint on every text alone."""
    found = {kind.name: _run(kind) for kind in KINDS}
    names = ("gliner", "transformers", "torch", "tokenizers")
    versions = {name: version(name) for name in names}
    EXPECTED.write_text(json.dumps({"versions": versions, "found": found}) + "\n")


def _run(kind: Kind) -> list[list[Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_relex(folder, kind)
        model = GLiNER.from_pretrained(str(folder), local_files_only=True).eval()
        check_names(model, folder)
        found = []
        for entities, relations, threshold, mode, _ in QUESTIONS:
            named = (entities, relations)
            answers = [_answer(model, text, named, threshold=threshold, **mode) for text in TEXTS]
            found.append([[_entities(one), _relations(two)] for one, two in answers])
        counts = [sum(len(item[at]) for one in found for item in one) for at in (0, 1)]
        print(kind.name, *counts)  # noqa: T201
        return found


def _answer(model: Any, text: str, named: Any, **options: Any) -> Any:
    try:
        return model.predict_relations(text, *named, **options)
    except AttributeError:
        # Attention over no entities at all fails in the package.
        return [], []


def _entities(found: list[dict[str, Any]]) -> list[list[Any]]:
    return [[one["start"], one["end"], one["label"], round(one["score"], 5)] for one in found]


def _relations(found: list[dict[str, Any]]) -> list[list[Any]]:
    """Return relations once each: a span of two labels is there twice, and linked to itself."""
    best: dict[tuple[Any, ...], float] = {}
    for one in found:
        head, tail = one["head"], one["tail"]
        ends = (head["start"], head["end"], tail["start"], tail["end"])
        if ends[:2] != ends[2:]:
            key = (*ends, one["relation"])
            best[key] = max(best.get(key, 0.0), one["score"])
    return [[*key, round(score, 5)] for key, score in best.items()]


if __name__ == "__main__":
    main()
