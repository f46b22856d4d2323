"""Texts beside others of one length or of any, and windows, on the CPU; a device has the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.packing import pack, unpack
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_parity import request_for
from tests.tiny import change_json

BY_NAME = {row.name: row for row in ROWS}
_GEMMA3 = BY_NAME["gemma3_text"]
CAUSAL = {
    "qwen3": BY_NAME["qwen3"],
    "gemma3": replace(_GEMMA3, config={**_GEMMA3.config, "sliding_window": 8}),
}
# The first word differs; 24 tokens each with the one special token of the two families.
ONE_LENGTH = [f"{word} " + "x " * 22 for word in ("alpha", "beta", "gamma")]

_MODERNBERT = BY_NAME["modernbert"]
WINDOWED = replace(
    _MODERNBERT,
    config={
        **_MODERNBERT.config,
        "num_hidden_layers": 6,
        "hidden_size": 64,
        "intermediate_size": 96,
        "local_attention": 16,
        "max_position_embeddings": 256,
    },
)
# 200 tokens and 10, with [CLS] and [SEP].
WINDOW_TEXTS = ["alpha beta " * 99, "alpha beta " * 4]


def vectors(
    adapter: Adapter, texts: list[str], device: torch.device, output: str = "dense"
) -> list[np.ndarray]:
    """Return vectors of unit length, the texts in one packed batch."""
    request = wire.EncodeRequest.model_validate(
        {
            "items": [{"text": text} for text in texts],
            "params": {"output_types": [output], "options": {"normalize": True}},
        }
    )
    prepared = adapter.prepare(request)
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(prepared.sequences, device)), len(texts))
    items = adapter.finish(request, prepared, list(outputs)).items
    return [getattr(item, output).values for item in items]


def load_on(folder: Path, device: torch.device, dtype: torch.dtype) -> Adapter:
    """Load a checkpoint onto a device."""
    recipe = create.read_recipe("m", folder, None)
    return create.load_adapter(recipe, device=device, dtype=dtype)


def farthest(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest difference of any two numbers."""
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))


def change_by_a_neighbour_of_one_length(adapter: Adapter, device: torch.device) -> float:
    """Return how far a text's vector moves, alone and beside two others of its length."""
    first, second, third = ONE_LENGTH
    alone = vectors(adapter, [first], device)
    beside = (vectors(adapter, [first, other], device)[:1] for other in (second, third))
    return max(farthest(one, alone) for one in beside)


def change_by_the_last_word(adapter: Adapter, device: torch.device) -> tuple[float, float]:
    """Return how far token vectors move before the last word, and from it on."""
    texts = [f"{ONE_LENGTH[0]} {word}" for word in ("stone", "river")]
    first, second = vectors(adapter, texts, device, "multivector")
    moved = np.abs(first - second).max(axis=1)
    # One special token may follow the last word.
    return float(moved[:-2].max()), float(moved[-2:].max())


def windowed_reference(folder: Path) -> list[np.ndarray]:
    """Save the windowed model; return what the library's plain formula gives, text by text."""
    model = save(WINDOWED, "dense", folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in WINDOW_TEXTS]
    assert [len(one) for one in ids] == [200, 10]
    with torch.no_grad():
        states = [model(input_ids=torch.tensor([one])).last_hidden_state[0] for one in ids]
    return [torch.nn.functional.normalize(one.mean(0), dim=0).numpy() for one in states]


@pytest.mark.parametrize("row", CAUSAL.values(), ids=CAUSAL)
def test_a_neighbour_of_the_same_length_changes_nothing(row: Row, tmp_path: Path) -> None:
    """Case T05, on the CPU."""
    save(row, "dense", tmp_path)
    adapter = load(tmp_path)
    request = request_for("dense", ONE_LENGTH)
    assert [one.num_tokens for one in adapter.prepare(request).sequences] == [24] * 3
    assert change_by_a_neighbour_of_one_length(adapter, CPU) <= 1e-5
    before, after = change_by_the_last_word(adapter, CPU)
    assert before <= 1e-5
    assert after > 1e-2


def test_a_window_that_is_read_as_the_reference_reads_it(tmp_path: Path) -> None:
    """Case T06, on the CPU; without the window the numbers are others."""
    expected = windowed_reference(tmp_path)
    assert farthest(vectors(load(tmp_path), WINDOW_TEXTS, CPU), expected) <= 1e-5
    change_json(tmp_path, "config.json", local_attention=512)
    assert farthest(vectors(load(tmp_path), WINDOW_TEXTS, CPU), expected) > 1e-2


@pytest.mark.parametrize("name", ["bert", "xlm-roberta", "modernbert", "qwen3"])
def test_a_neighbour_of_any_length_changes_nothing(name: str, tmp_path: Path) -> None:
    """Case T08; 7, 8, 9, 63, 64 and 65 are around lengths that kernels pad to."""
    row = BY_NAME[name]
    save(row, "dense", tmp_path)
    adapter = load(tmp_path)
    limit = adapter.card.max_sequence_length
    alone = vectors(adapter, ["morning coffee"], CPU)
    for length in (1, 7, 8, 9, 16, 63, 64, 65, limit):
        texts = ["morning coffee", "morning coffee " + "x " * length]
        assert farthest(vectors(adapter, texts, CPU)[:1], alone) <= 1e-5
