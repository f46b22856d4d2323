"""CLIP's older tokenizer files, read as the reference reads them."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import ModelLoadFailed

START, END = "<|startoftext|>", "<|endoftext|>"
TEXTS = [
    "A photo of  a Cat!",
    "it's 2024, they'll  café\u0301 don't\n\tstop…",
    f"one {END} two {START}",
    "猫 🐈 ß İ",
    "",
    "a" * 300,
]


def save_clip_tokenizer(folder: Path) -> None:
    """Write vocab.json and merges.txt, learnt from a few words, the end-of-text token last."""
    learning = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learning.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, end_of_word_suffix="</w>", initial_alphabet=alphabet, show_progress=False
    )
    learning.train_from_iterator(["a photo of a cat and a dog, they stop"] * 9, trainer)
    state = json.loads(learning.to_str())["model"]
    learnt = [*state["vocab"], *(f"{letter}</w>" for letter in alphabet)]
    words = [*dict.fromkeys(learnt), START, END]
    ids = {word: place for place, word in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    merges = "\n".join(" ".join(pair) for pair in state["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")


def test_texts_have_the_tokens_of_the_reference(tmp_path: Path) -> None:
    save_clip_tokenizer(tmp_path)
    reference = CLIPTokenizer.from_pretrained(tmp_path)
    for limit in (None, 77, 5):
        own = TextTokenizer.from_folder(tmp_path).encode(TEXTS, limit)
        cut = {} if limit is None else {"truncation": True, "max_length": limit}
        expected = [reference(text, **cut)["input_ids"] for text in TEXTS]
        assert [one.ids.tolist() for one in own] == expected


def test_files_of_that_form_without_its_special_tokens_are_not_clip_s(tmp_path: Path) -> None:
    save_clip_tokenizer(tmp_path)
    path = tmp_path / "vocab.json"
    path.write_text(path.read_text().replace(START, "<s>"))
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json cannot be read"):
        TextTokenizer.from_folder(tmp_path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    save_clip_tokenizer(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nnot words of it\n")
    with pytest.raises(ModelLoadFailed, match="cannot be read"):
        TextTokenizer.from_folder(tmp_path)
