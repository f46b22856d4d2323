"""A tiny checkpoint that finds names: its weights say for each word piece which tag it has.

Every layer passes its input on, so that the tag of a word does not depend on its neighbours.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import BertForTokenClassification

from tests.tiny import MAX_LENGTH, VOCABULARY, bert_config, save_tokenizer, wordpiece

# Word piece -> tag. "ada lovelace" is one name of two words; "dimly" is one the model doubts.
NAMES = {
    "ada": "B-NAME",
    "lovelace": "I-NAME",
    "bob": "B-NAME",
    "carl": "B-NAME",
    "dora": "B-NAME",
    "eve": "B-NAME",
    "jose": "B-NAME",
    "istanbul": "B-PLACE",
    "york": "B-PLACE",
    "##ada": "B-NAME",
}
DOUBTED = {"dimly": "B-NAME"}
LETTERS_OF_CHINESE = {"北": "B-PLACE", "京": "I-PLACE", "上": "B-PLACE", "海": "I-PLACE"}


def save_name_finder(
    folder: Path,
    pieces: Mapping[str, str] = NAMES,
    *,
    doubted: Mapping[str, str] = DOUBTED,
    max_length: int = MAX_LENGTH,
) -> None:
    """Write the checkpoint; every other piece is tagged O."""
    words = list(dict.fromkeys([*VOCABULARY, *pieces, *doubted]))
    tags = ["O", *dict.fromkeys([*pieces.values(), *doubted.values()])]
    config = bert_config(
        vocab_size=len(words),
        max_position_embeddings=max_length,
        id2label=dict(enumerate(tags)),
        label2id={tag: index for index, tag in enumerate(tags)},
    )
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "LayerNorm" in name and name.endswith("weight")
            parameter.fill_(1.0 if is_norm else 0.0)
        table = model.bert.embeddings.word_embeddings.weight
        table[:, 0] = 1.0
        for piece, tag in pieces.items():
            table[words.index(piece)] = 0.0
            table[words.index(piece), tags.index(tag)] = 1.0
        for piece, tag in doubted.items():
            table[words.index(piece), tags.index(tag)] = 0.95  # against 1.0 for O
            table[words.index(piece), 0] = 0.9
        model.classifier.weight[:, : len(tags)] = torch.eye(len(tags))
    model.save_pretrained(folder)
    save_tokenizer(folder, wordpiece(words), max_length=max_length)
