"""Packed linear layers beside their plain twins: the same vectors, and weights that come back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.cpu_linears import MIN_NUMBERS
from sie_mcp.adapters.layers.cpu.packed_linear import PackedLinear, can_pack
from sie_mcp.adapters.widened import widened
from tests.parity.checkpoints import save
from tests.parity.run import CPU, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS

BY_NAME = {row.name: row for row in ROWS}
NAMES = ["bert", "roberta", "mpnet", "modernbert", "deberta-v2", "nomic_bert", "qwen3"]
PAGE_BYTES = 4096
needs_packing = pytest.mark.skipif(not can_pack(), reason="products here read plain weights")


def load(folder: Path, dtype: torch.dtype, *, packs: bool) -> Adapter:
    recipe = create.read_recipe(folder.name, folder, None)
    return create.load_adapter(
        recipe, device=CPU, dtype=dtype, packing=PackedLinear if packs else None
    )


def vectors(adapter: Adapter) -> np.ndarray:
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in TEXTS])
    _, outputs = run(adapter, request)
    return np.concatenate([one["dense"] for one in outputs])


def packed_layers(adapter: Adapter) -> list[PackedLinear]:
    return [one for one in adapter._model.modules() if isinstance(one, PackedLinear)]  # type: ignore[attr-defined]


@needs_packing
@pytest.mark.parametrize("name", NAMES)
def test_packed_layers_give_what_plain_ones_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.adapters.cpu_linears.MIN_NUMBERS", 1)
    save(BY_NAME[name], "dense", tmp_path)
    plain = load(tmp_path, torch.float32, packs=False)
    packed = load(tmp_path, torch.float32, packs=True)
    assert packed_layers(packed)
    assert not packed_layers(plain)
    np.testing.assert_allclose(vectors(packed), vectors(plain), rtol=1e-4, atol=1e-5)


@needs_packing
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_weights_leave_and_come_back_as_they_were(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.adapters.cpu_linears.MIN_NUMBERS", 1)
    save(BY_NAME["bert"], "dense", tmp_path)
    plain, adapter = (load(tmp_path, dtype, packs=packs) for packs in (False, True))
    assert adapter.weights is not None
    assert plain.weights is not None
    before, expected = vectors(adapter), vectors(plain)
    assert adapter.weights.size_bytes == plain.weights.size_bytes
    count = -(-plain.weights.size_bytes // PAGE_BYTES)
    pages = [torch.zeros(PAGE_BYTES, dtype=torch.uint8) for _ in range(count)]
    adapter.weights.stage(pages)
    plain.weights.leave()
    plain.weights.enter(CPU, pages)
    np.testing.assert_array_equal(vectors(plain), expected)
    adapter.weights.leave()
    assert not adapter.weights.is_here
    assert all(layer.size_bytes == 0 for layer in packed_layers(adapter))
    adapter.weights.enter(CPU, pages)
    np.testing.assert_array_equal(vectors(adapter), before)


@needs_packing
def test_a_layer_of_half_precision_computes_wider_where_it_is_asked_to() -> None:
    linear = nn.Linear(64, 96).bfloat16().requires_grad_(False)
    x = torch.randn(5, 64)
    expected = nn.functional.linear(x, linear.weight.float(), linear.bias.float())
    layer = PackedLinear(linear)
    layer.pack()
    torch.testing.assert_close(layer(x), expected)
    with widened():
        torch.testing.assert_close(layer(x), expected)
    assert layer(x[:0].bfloat16()).shape == (0, 96)


@needs_packing
def test_small_layers_and_shared_weights_stay_plain(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    adapter = load(tmp_path, torch.float32, packs=True)
    sizes = [layer.in_features * layer.out_features for layer in packed_layers(adapter)]
    assert all(size >= MIN_NUMBERS for size in sizes)
