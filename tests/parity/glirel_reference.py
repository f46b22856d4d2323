"""Writes glirel_expected.json: what the glirel package answers for the tiny checkpoints.

Run `python -m tests.parity.glirel_reference` where the package is installed.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.parity.gliners import make_tokenizer, save_tokenizer
from tests.parity.glirels import EXPECTED, KINDS, RELATIONS, TEXTS, Checkpoint, save_glirel


def answers(kind: Checkpoint) -> list[list[list[float]]]:
    """Return for each text and pair of entities the probability of each relation."""
    import glirel  # noqa: PLC0415 – the package is needed here alone
    from glirel.model import load_config_as_namespace  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        save_glirel(folder, kind)
        tokenizer = make_tokenizer(kind.tokenizer, added=False)
        (folder / "encoder").mkdir()
        save_tokenizer(folder / "encoder", tokenizer)
        own = {key: value for key, value in kind.encoder.items() if key != "model_type"}
        config = transformers.AutoConfig.for_model(
            kind.encoder["model_type"], vocab_size=tokenizer.get_vocab_size(), **own
        )
        transformers.AutoModel.from_config(config).save_pretrained(folder / "encoder")
        settings = load_config_as_namespace(folder / "glirel_config.json")
        settings.model_name, settings.device = str(folder / "encoder"), "cpu"
        model = glirel.GLiREL(settings)
        model.load_state_dict(torch.load(folder / "pytorch_model.bin"), strict=True)
    model.to("cpu").eval()
    return [_scores(model, text, spans) for text, spans in TEXTS]


def _scores(model: Any, text: str, spans: list[tuple[int, int]]) -> list[list[float]]:

    words = re.findall(r"\w+(?:[-_]\w+)*|\S", text)
    item = {"tokenized_text": words, "ner": [[*span, "x"] for span in spans], "relations": []}
    batch = model.collate_fn([item], relation_types=list(RELATIONS), device="cpu")
    with torch.no_grad():
        logits = model.compute_score(batch)[0][0]
    return [[round(one, 6) for one in row] for row in logits.sigmoid().tolist()]


if __name__ == "__main__":
    found = {kind.name: answers(kind) for kind in KINDS}
    EXPECTED.write_text(json.dumps(found) + "\n", encoding="utf-8")
