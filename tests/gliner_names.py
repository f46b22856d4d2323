"""A tiny GLiNER that finds names: its weights say for each word which part of which label it is.

Layers pass their input on, and a label is read by its own token: neighbours change nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import BertModel

from tests.tiny import VOCABULARY, bert_config, save_tokenizer, wordpiece, write_json

LABELS = ("name", "place")
START, END, INSIDE = range(3)
_WHOLE = (START, END, INSIDE)
# Word piece -> label and which parts of an entity it can be.
NAMES: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(("ann", "bob", "carl", "dora", "eve"), ("name", _WHOLE)),
    "istanbul": ("place", _WHOLE),
    "ada": ("name", (START, INSIDE)),
    "lovelace": ("name", (END, INSIDE)),
    "北": ("place", (START, INSIDE)),
    "京": ("place", (END, INSIDE)),
}
SIZE = 32
MAX_WORDS = 384


def save_gliner_of_names(
    folder: Path,
    names: Mapping[str, tuple[str, tuple[int, ...]]] = NAMES,
    *,
    max_positions: int = 1024,
    **settings: Any,
) -> None:
    """Write the checkpoint; `settings` go into gliner_config.json."""
    words = list(dict.fromkeys([*VOCABULARY, *LABELS, *names]))
    config = bert_config(
        vocab_size=len(words) + 3,
        hidden_size=SIZE,
        num_hidden_layers=1,
        max_position_embeddings=max_positions,
    )
    encoder = config.to_diff_dict() | {"model_type": "bert", "vocab_size": len(words)}
    write_json(
        folder,
        "gliner_config.json",
        {
            "model_name": "tiny",
            "hidden_size": SIZE,
            "span_mode": "token_level",
            "num_rnn_layers": 0,
            "embed_ent_token": False,
            "max_len": MAX_WORDS,
            "encoder_config": encoder,
            **settings,
        },
    )
    tensors = _encoder(config, words, names) | _scorer()
    save_file(tensors, folder / "model.safetensors")
    save_tokenizer(folder, wordpiece(words), max_length=max_positions)


def _encoder(
    config: Any, words: list[str], names: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, torch.Tensor]:
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "LayerNorm" in name and name.endswith("weight") else 0.0)
        table = model.embeddings.word_embeddings.weight
        table[:, SIZE - 1] = 1.0
        for word, (label, parts) in names.items():
            table[words.index(word), SIZE - 1] = 0.0
            for part in parts:
                table[words.index(word), 3 * LABELS.index(label) + part] = 1.0
        for place, label in enumerate(LABELS):
            table[words.index(label), SIZE - 1] = 0.0
            table[words.index(label), 8 + place] = 1.0
    before = "token_rep_layer.bert_layer.model."
    return {f"{before}{name}": one.detach() for name, one in model.named_parameters()}


def _scorer() -> dict[str, torch.Tensor]:
    """Return weights under which a word's part meets its own label and no other."""
    token, label = torch.zeros(2 * SIZE, SIZE), torch.zeros(2 * SIZE, SIZE)
    first, last = torch.zeros(4 * SIZE, 3 * SIZE), torch.zeros(3, 4 * SIZE)
    for place in range(len(LABELS)):
        for part in range(3):
            met = 3 * place + part
            token[SIZE + met, met] = 1.0
            label[SIZE + met, 8 + place] = 1.0
            first[met, 2 * SIZE + met] = 1.0
            last[part, met] = 1.0
    tensors = {
        "proj_token.weight": token,
        "proj_label.weight": label,
        "out_mlp.0.weight": first,
        "out_mlp.3.weight": last,
    }
    biases = {
        "proj_token.bias": torch.zeros(2 * SIZE),
        "proj_label.bias": torch.zeros(2 * SIZE),
        "out_mlp.0.bias": torch.zeros(4 * SIZE),
        "out_mlp.3.bias": torch.full((3,), -8.0),
    }
    return {f"scorer.{name}": one for name, one in (tensors | biases).items()}
