"""A container made by hand, read into a checkpoint that loads."""

import struct
from pathlib import Path

import numpy as np
import pytest

from evals.families import folders
from evals.families.e5_container import read_e5
from tests.running import encode, load

HIDDEN, WIDENED, POSITIONS = 32, 64, 512
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁a", "b", "▁passage", ":"]
# Name -> number of values; matrices are those of the blocks.
NUMBERS = {"emb.pos": POSITIONS * HIDDEN, "emb.type": HIDDEN}
NUMBERS |= dict.fromkeys(["emb.ln.w", "emb.ln.b", "l0.aln.w", "l0.aln.b"], HIDDEN)
NUMBERS |= dict.fromkeys(["l0.oln.w", "l0.oln.b", "l0.q.b", "l0.k.b", "l0.v.b"], HIDDEN)
NUMBERS |= {"l0.ao.b": HIDDEN, "l0.fi.b": WIDENED, "l0.fo.b": HIDDEN}
MATRICES = dict.fromkeys(["l0.q.w", "l0.k.w", "l0.v.w", "l0.ao.w"], HIDDEN * HIDDEN)
MATRICES |= {"emb.word": len(PIECES) * HIDDEN, "l0.fi.w": WIDENED * HIDDEN}
MATRICES |= {"l0.fo.w": HIDDEN * WIDENED}


def _container(magic: bytes = b"E5S1") -> bytes:
    generator = np.random.default_rng(0)
    text = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, text)], dtype="<u4")
    scores = np.linspace(-1, -2, len(PIECES), dtype="<f4")
    sizes = struct.pack("<i7ifi", 1, HIDDEN, 1, 4, WIDENED, len(PIECES), POSITIONS, 1, 1e-12, 32)
    tokenizer = struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1]))
    tokenizer += ends.tobytes() + scores.tobytes() + b"".join(text)
    # A map of one character to one other.
    tokenizer += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0x41, 1, 0x61)
    data = {name: generator.normal(size=n).astype("<f4").tobytes() for name, n in NUMBERS.items()}
    for name, count in MATRICES.items():
        scales = np.full((count // 32, 1), 0.02, "<f2").view(np.uint8)
        codes = generator.integers(0, 256, (count // 32, 16), dtype=np.uint8)
        data[name] = np.concatenate([scales, codes], axis=1).tobytes()
    head = magic + sizes + tokenizer + struct.pack("<i", len(data))
    place = len(head) + sum(2 + len(name) + 21 for name in data)
    for name, content in data.items():
        count = (NUMBERS | MATRICES)[name]
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", name in MATRICES, count, place, len(content))
        place += len(content)
    return head + b"".join(data.values())


def test_it_becomes_a_bert_with_a_tokenizer_and_prompts(tmp_path: Path) -> None:
    file = tmp_path / "e5.bin"
    file.write_bytes(_container())
    checkpoint = read_e5(file)
    assert checkpoint.tensors["encoder.layer.0.intermediate.dense.weight"].shape == (64, 32)
    assert checkpoint.tokenizer.encode("a b").tokens == ["<s>", "▁a", "▁", "b", "</s>"]
    adapter = load(folders.write(checkpoint, tmp_path / "e5"))
    (passage,), (query,) = (
        encode(adapter, ["a b"], is_query=is_query) for is_query in (False, True)
    )
    assert np.isclose(np.linalg.norm(passage.dense.values), 1.0)
    assert not np.allclose(passage.dense.values, query.dense.values)


def test_another_file_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    file = tmp_path / "other.bin"
    file.write_bytes(_container(b"E5S2"))
    with pytest.raises(ValueError, match=r"other.bin starts with b'E5S2'"):
        read_e5(file)
