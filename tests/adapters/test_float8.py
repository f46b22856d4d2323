"""Linear layers in eight-bit floats: near their plain twins, blind to neighbours, and swapped."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sie_mcp import wire
from sie_mcp.adapters import checked, create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.checked import load_checked
from sie_mcp.adapters.float8 import use_float8
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear, rounded, rounded_weights
from sie_mcp.adapters.widened import widened
from tests.parity.checkpoints import save
from tests.parity.run import CPU, run
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS

BY_NAME = {row.name: row for row in ROWS}
NAMES = ["bert", "roberta", "modernbert", "nomic_bert", "deberta-v2", "qwen3"]
PAGE_BYTES = 4096


@pytest.fixture(autouse=True)
def small_layers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sie_mcp.adapters.float8.MIN_NUMBERS", 1)


def layer_of(linear: nn.Linear) -> Float8Linear:
    """Round a layer that has numbers."""
    layer = Float8Linear(linear)
    layer.weight = nn.Parameter(torch.empty(linear.weight.shape, dtype=FLOAT8), requires_grad=False)
    layer.put(linear.weight.detach())
    return layer


def load(folder: Path, dtype: torch.dtype) -> Adapter:
    return create.load_adapter(
        create.read_recipe(folder.name, folder, None), device=CPU, dtype=dtype
    )


def vectors(adapter: Adapter) -> np.ndarray:
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in TEXTS])
    _, outputs = run(adapter, request)
    return np.concatenate([one["dense"] for one in outputs])


def eights(adapter: Adapter) -> list[Float8Linear]:
    return [one for one in adapter._model.modules() if isinstance(one, Float8Linear)]  # type: ignore[attr-defined]


def test_rows_are_rounded_to_three_bits_behind_the_first_by_their_own_largest_number() -> None:
    x = torch.randn(7, 64) * torch.logspace(-8, 8, 7)[:, None]
    values, scales = rounded(x)
    assert (values.float().abs().amax(-1) == 448).all()
    error = (values.float() * scales - x).abs()
    assert (error <= torch.maximum(x.abs() / 16, scales / 512) * 1.001).all()
    assert rounded(torch.zeros(1, 16)).values.float().eq(0).all()


def test_weights_lose_less_than_rows_that_are_rounded_at_once() -> None:
    weights = torch.randn(32, 256)
    lost = []
    for values, scales in (rounded(weights), rounded_weights(weights)):
        assert values.float().isfinite().all()
        lost.append((values.float() * scales - weights).square().sum(-1))
    assert (lost[1] <= lost[0]).all()
    assert lost[1].mean() < 0.95 * lost[0].mean()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_hidden(bad: float) -> None:
    layer = layer_of(nn.Linear(16, 32).bfloat16().requires_grad_(False))
    x = torch.randn(3, 16).bfloat16()
    x[1, 5] = bad
    is_finite = layer(x).isfinite().all(-1)
    assert is_finite.tolist() == [True, False, True]


def test_a_layer_is_near_its_twin_and_each_row_by_itself() -> None:
    linear = nn.Linear(256, 96).bfloat16().requires_grad_(False)
    layer, x = layer_of(linear), torch.randn(40, 256).bfloat16()
    x[3] *= 1000
    found, expected = layer(x).float(), linear(x).float()
    assert found.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found, expected, dim=-1).min() >= 0.998
    torch.testing.assert_close(layer(x[5:6]), layer(x)[5:6])
    assert layer(x[:0]).shape == (0, 96)


def test_the_library_s_product_is_the_twin_s() -> None:
    layer, x = layer_of(nn.Linear(64, 32).bfloat16().requires_grad_(False)), torch.randn(9, 64)
    eight = rounded(x)
    found = torch._scaled_mm(
        eight.values,
        layer.weight.t(),
        scale_a=eight.scales,
        scale_b=layer.scales[None],
        out_dtype=torch.bfloat16,
    )
    torch.testing.assert_close(found + layer.bias, layer.product(eight), rtol=2e-2, atol=2e-2)


def test_a_second_try_in_float32_rounds_no_inputs() -> None:
    layer, x = layer_of(nn.Linear(64, 96).bfloat16().requires_grad_(False)), torch.randn(5, 64)
    expected = nn.functional.linear(x, layer.plain(), layer.bias.float())
    torch.testing.assert_close(layer(x), expected)
    with widened():
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_near_its_twin_at_half_the_size(name: str, tmp_path: Path) -> None:
    save(BY_NAME[name], "dense", tmp_path)
    plain, small = (load(tmp_path, dtype) for dtype in (torch.float32, FLOAT8))
    assert eights(small)
    found, expected = vectors(small), vectors(plain)
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected, axis=-1)
    cosines = (found * expected).sum(-1) / norms
    # The weights are drawn wide, so that every rounding shows.
    assert cosines.mean() >= 0.97
    assert cosines.min() >= 0.9
    recipe = create.read_recipe("m", tmp_path, None)
    assert small.weights is not None
    assert create.weight_bytes(recipe, FLOAT8) == small.weights.size_bytes
    assert small.weights.size_bytes < create.weight_bytes(recipe, torch.bfloat16)


def test_weights_leave_and_come_back_as_they_were(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    adapter = load(tmp_path, FLOAT8)
    weights, before = adapter.weights, vectors(adapter)
    assert weights is not None
    pages = [
        torch.zeros(PAGE_BYTES, dtype=torch.uint8)
        for _ in range(-(-weights.size_bytes // PAGE_BYTES))
    ]
    weights.stage(pages)
    weights.leave()
    assert not any(one.weight.numel() or one.scales.numel() for one in eights(adapter))
    weights.enter(CPU, pages)
    np.testing.assert_array_equal(vectors(adapter), before)


def test_layers_that_the_products_do_not_take_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with torch.device("meta"):
        tied = nn.Linear(32, 32)
        other = nn.Linear(32, 32)
        other.weight = tied.weight
        module = nn.ModuleDict(
            {
                "odd": nn.Linear(24, 32),
                "narrow": nn.Linear(32, 3),
                "tied": tied,
                "other": other,
                "qkv": nn.Linear(32, 96),
                "out": nn.Linear(32, 32),
            }
        )
    assert use_float8(module, module, "deberta-v2") == 1
    assert isinstance(module["out"], Float8Linear)
    monkeypatch.setattr("sie_mcp.adapters.float8.MIN_NUMBERS", 32 * 96)
    assert use_float8(module, module, "bert") == 1
    assert isinstance(module["qkv"], Float8Linear)


@pytest.mark.parametrize(("least", "is_small"), [(0.9, True), (1.1, False)])
def test_a_model_that_does_not_agree_is_served_in_bfloat16_and_says_so(
    least: float,
    is_small: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(checked.MIN_COSINES, FLOAT8, least)
    # Only a GPU is served so; the rest of the way is the same here.
    monkeypatch.setattr(checked, "wider_dtype", lambda _, dtype: torch.bfloat16)
    save(BY_NAME["bert"], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    served = load_checked(recipe, device=CPU, dtype=FLOAT8)
    assert bool(eights(served)) == is_small
    said = "torch.bfloat16 instead of torch.float8_e4m3fn model=m reason=dense: cosine"
    assert (said in caplog.text) != is_small
