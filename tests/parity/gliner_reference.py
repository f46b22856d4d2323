"""Writes gliner_expected.json, what the gliner package finds.

Run as `python -m tests.parity.gliner_reference`, in an environment of its own with
`pip install gliner==0.2.29`, which takes transformers below 5.17.
"""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from gliner import GLiNER
from safetensors.torch import load_file

from tests.parity.gliners import EXPECTED, KINDS, QUESTIONS, TEXTS, Kind, save_gliner


def main() -> None:
    """Run every checkpoint on every text alone."""
    found = {kind.name: _run(kind) for kind in KINDS}
    names = ("gliner", "transformers", "torch", "tokenizers")
    versions = {name: version(name) for name in names}
    EXPECTED.write_text(json.dumps({"versions": versions, "found": found}) + "\n")


def _run(kind: Kind) -> list[list[list[Any]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_gliner(folder, kind)
        settings = json.loads((folder / "gliner_config.json").read_text())
        if kind.labels is not None:
            # Where the package looks for the second tokenizer.
            settings["labels_encoder"] = str(folder / "labels_tokenizer")
            (folder / "gliner_config.json").write_text(json.dumps(settings))
        model = GLiNER.from_pretrained(str(folder), local_files_only=True).eval()
        check_names(model, folder)
        found = []
        for labels, threshold, mode, _ in QUESTIONS:
            answers = [
                model.predict_entities(text, labels, threshold=threshold, **mode) for text in TEXTS
            ]
            found.append([[_row(one) for one in answer] for answer in answers])
        print(kind.name, sum(len(one) for answer in found for one in answer))  # noqa: T201
        return found


def check_names(model: Any, folder: Path) -> None:
    """Hold the names and values of tensors against those that the package loaded."""
    own = load_file(folder / "model.safetensors")
    theirs = model.model.state_dict()
    names = {name for name in theirs if not name.endswith(("position_ids", "inv_freq"))}
    names -= {name for name in names if "encoder.embed_tokens" in name or "token_type_ids" in name}
    assert names == own.keys(), sorted(names ^ own.keys())[:8]
    for name, tensor in own.items():
        assert torch.equal(theirs[name], tensor), name


def _row(entity: dict[str, Any]) -> list[Any]:
    return [entity["start"], entity["end"], entity["label"], round(entity["score"], 6)]


if __name__ == "__main__":
    main()
