"""Eight-bit floats on the device: the kernel, the product, models of three families, swaps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.checked import load_checked
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.adapters.flat import flatten, weights_stream
from sie_mcp.adapters.float8 import has_float8
from sie_mcp.adapters.layers.float8_linear import FLOAT8, Float8Linear, rounded
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.recovery import Forwards
from sie_mcp.engine.retry_wide import WideAdapter
from tests.parity.checkpoints import WORDS, save
from tests.parity.table import ROWS

CUDA = torch.device("cuda", 0)
ALL = frozenset({"kernels", "graphs", "overlap"})
FAMILIES = ["bert", "roberta", "modernbert"]
WIDE = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 6,
    "num_hidden_layers": 4,
    "initializer_range": 0.02,
}
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and has_float8(CUDA)),
    reason="needs a CUDA device of capability 8.9",
)


def drawn(*shape: int) -> torch.Tensor:
    """Return random numbers; a recording that failed leaves the default generator unusable."""
    return torch.randn(shape, generator=torch.Generator(CUDA).manual_seed(0), device=CUDA)


def saved(tmp_path, name):
    """Save a model as wide as small real ones, its weights drawn as the library draws them."""
    row = next(row for row in ROWS if row.name == name)
    save(replace(row, config={**row.config, **WIDE}), "dense", tmp_path)
    return create.read_recipe("m", tmp_path, None)


def texts(seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, n)) for n in rng.integers(3, 60, 40)]


def vectors(adapter, what=None):
    request = wire.EncodeRequest(items=[wire.Item(text=one) for one in what or texts()])
    forwards = Forwards(CUDA, lambda: False, lambda: None, lambda *_: None, retries_nonfinite=False)
    for _ in range(4):  # Until it is recorded.
        found = forwards.run(adapter, adapter.prepare(request).sequences)
    rows = np.stack([one["dense"][0] for one in found]).astype(np.float64)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def layer_of(linear):
    """Bring a layer that has numbers to the device."""
    layer = Float8Linear(linear)
    with weights_stream(CUDA):
        flatten(layer, CUDA, lambda _, one: one.dtype)
        layer.put(linear.weight.detach())
    torch.cuda.synchronize()
    return layer


@pytest.mark.parametrize("shape", [(1, 384, 1152), (17, 1024, 1024), (4099, 1024, 4096)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_product_is_its_twin_s_for_any_number_of_rows(shape, has_bias):
    num_rows, width, outputs = shape
    torch.manual_seed(0)
    linear = nn.Linear(width, outputs, bias=has_bias).bfloat16().requires_grad_(False)
    layer = layer_of(linear)
    x = drawn(num_rows, width).bfloat16()
    eight = rounded(x)
    found = layer.product(eight).float()
    wide = (eight.values.float() * eight.scales) @ layer.plain().t()
    expected = wide if layer.bias is None else wide + layer.bias.float()
    assert float((found - expected).abs().max()) <= 0.02 * float(expected.abs().max())
    exact = nn.functional.linear(x.float(), linear.weight.float().to(CUDA))
    exact = exact if layer.bias is None else exact + layer.bias.float()
    assert nn.functional.cosine_similarity(found, exact, dim=-1).mean() >= 0.999


@pytest.mark.parametrize("size", [48, 384, 768, 1024, 4096, 8960, 16_384])
def test_the_kernel_rounds_rows_of_any_width(size):
    x = drawn(33, size).bfloat16() * 7
    batch = pack([Sequence(np.arange(3))], CUDA, is_laid_out=True)
    kernels = usable("rounds", x, replace(batch, paths=frozenset({"kernels"})))
    assert kernels is not None
    found, expected = kernels.rounded(x), rounded(x)
    torch.testing.assert_close(found.scales, expected.scales, rtol=1e-6, atol=0)
    moved = (found.values.float() != expected.values.float()).float().mean()
    assert float(moved) <= 0.01
    x[5, 7], x[6, 0] = float("nan"), float("inf")
    broken = kernels.rounded(x)
    is_finite = (broken.values.float() * broken.scales).isfinite().all(-1)
    assert is_finite.logical_not().nonzero().flatten().tolist() == [5, 6]


@pytest.mark.parametrize("paths", [frozenset(), ALL], ids=["plain", "fast"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_in_eight_bits_is_near_float32(tmp_path, name, paths, record, caplog):
    recipe = saved(tmp_path, name)
    exact = vectors(create.load_adapter(recipe, device=CUDA, dtype=torch.float32))
    half = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16)
    small = load_checked(recipe, device=CUDA, dtype=FLOAT8, paths=paths)
    assert paths_of(small) == paths, caplog.text
    assert "instead of" not in caplog.text
    cosines = (vectors(small) * exact).sum(-1)
    assert "faster way off" not in caplog.text
    record(name, "dense", "fp8", mean_cosine=cosines.mean(), min_cosine=cosines.min())
    assert cosines.mean() >= 0.999
    assert cosines.min() >= 0.995
    assert small.weights.size_bytes < 0.7 * half.weights.size_bytes
    assert small.weights.size_bytes == create.weight_bytes(recipe, FLOAT8)


def test_a_text_has_the_same_vector_alone_and_among_others(tmp_path):
    small = load_checked(saved(tmp_path, "bert"), device=CUDA, dtype=FLOAT8, paths=ALL)
    among, alone = vectors(small), vectors(small, texts()[7:8])
    assert float(among[7] @ alone[0]) >= 0.9995


def test_weights_in_eight_bits_leave_and_come_back_as_they_were(tmp_path):
    adapter = load_checked(saved(tmp_path, "bert"), device=CUDA, dtype=FLOAT8, paths=ALL)
    weights, before = adapter.weights, vectors(adapter)
    pages = HostPages(is_pinned=True, page_bytes=1024**2)
    own = pages.get(range(-(-weights.size_bytes // pages.page_bytes)))
    weights.stage(own)
    for _ in range(3):
        weights.leave()
        other = drawn(weights.size_bytes // 4)  # Perhaps where they lay.
        weights.enter(CUDA, own)
        weights.follow()
        assert np.array_equal(vectors(adapter), before)
        assert other.isfinite().all()


def test_a_second_try_runs_in_float32(tmp_path):
    small = load_checked(saved(tmp_path, "bert"), device=CUDA, dtype=FLOAT8, paths=ALL)
    cosines = (vectors(WideAdapter(small)) * vectors(small)).sum(-1)
    assert cosines.mean() >= 0.999


def test_shapes_that_the_products_refuse_stay_in_bfloat16(tmp_path):
    # A tiny model has none that is worth it.
    save(next(row for row in ROWS if row.name == "bert"), "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    small = load_checked(recipe, device=CUDA, dtype=FLOAT8)
    assert small.weights.size_bytes == create.weight_bytes(recipe, torch.bfloat16)
    assert not any(isinstance(one, Float8Linear) for one in small._model.modules())
