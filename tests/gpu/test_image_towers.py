"""Towers for images on the device: faster ways against the plain one, and how colours get there."""

from functools import partial

import numpy as np
import pytest
import torch

from evals.bench.forwards import run_all
from evals.bench.image_models import save
from sie_mcp.adapters import create
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.adapters.one_copy import joined_to_device
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.recovery import Forwards
from tests.parity.image_towers import FILES, PAIRS, save_pair
from tests.picture_files import encode_images

CUDA = torch.device("cuda", 0)
ALL = frozenset({"kernels", "graphs", "overlap"})
# As published: heads of 64 numbers, and of 72.
SHAPES = {
    "siglip": ("siglip", {"num_hidden_layers": 3}),
    "siglip2": ("siglip2", {"num_hidden_layers": 3}),
    "heads of 72": (
        "siglip2",
        {
            "num_hidden_layers": 3,
            "hidden_size": 288,
            "num_attention_heads": 4,
            "intermediate_size": 1072,
        },
    ),
}
forwards = partial(
    Forwards, CUDA, lambda: False, lambda: None, lambda *_: None, retries_nonfinite=False
)


def loaded(folder, dtype=torch.bfloat16, paths=ALL):
    recipe = create.read_recipe("m", folder, None)
    return create.load_adapter(recipe, device=CUDA, dtype=dtype, paths=paths)


def sequences_of(adapter, files=FILES):
    return adapter.prepare(encode_images(files)).sequences


def vectors(adapter, files=FILES):
    found = forwards().run(adapter, sequences_of(adapter, files))
    return np.concatenate([one["dense"] for one in found])


def lowest_cosine(found, expected):
    a, b = (torch.from_numpy(one).double() for one in (found, expected))
    return float(torch.nn.functional.cosine_similarity(a, b, dim=-1).min())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_faster_ways_give_what_the_plain_one_gives(tmp_path, pair, dtype, record, caplog):
    save_pair(pair, tmp_path)
    plain, fast = (loaded(tmp_path, dtype, paths) for paths in (frozenset(), ALL))
    assert paths_of(fast) == ALL, caplog.text
    expected = vectors(plain)
    for _ in range(4):  # Nothing of an earlier batch is kept.
        found = vectors(fast)
    assert "faster way off" not in caplog.text
    assert np.abs(found - expected).max() <= 0.05 * max(np.abs(expected).max(), 1.0)
    name = str(dtype).removeprefix("torch.")
    record(pair.name, "dense", name, fast_against_plain=lowest_cosine(found, expected))


@pytest.mark.parametrize("shape", SHAPES)
def test_real_shapes_are_near_float32_with_kernels(tmp_path, shape, record, caplog):
    family, settings = SHAPES[shape]
    save(family, tmp_path, settings)
    exact, plain = loaded(tmp_path, torch.float32, frozenset()), loaded(tmp_path, paths=frozenset())
    fast = loaded(tmp_path)
    assert paths_of(fast) == ALL, caplog.text
    expected = vectors(exact)
    off, plainly_off = (1 - lowest_cosine(vectors(one), expected) for one in (fast, plain))
    record(shape, "dense", "bfloat16", fast=1 - off, plain=1 - plainly_off)
    # Which of two roundings is the larger is chance.
    assert off <= max(2 * plainly_off, 1e-3)
    assert "faster way off" not in caplog.text


@pytest.mark.parametrize("family", ["siglip", "siglip2"])
def test_batches_of_images_that_overlap_give_the_same_bits(tmp_path, family):
    save(family, tmp_path, {"num_hidden_layers": 2})
    # A recorded pass has rows behind the batch: other products, and other last bits.
    adapter, own = loaded(tmp_path, paths=ALL - {"graphs"}), forwards()
    rng = np.random.default_rng(0)
    known = sequences_of(adapter)
    batches = [
        [known[place] for place in rng.integers(0, len(known), count)]
        for count in rng.integers(1, 60, 12)
    ]
    expected = [own.run(adapter, batch) for batch in batches]
    assert "overlap" in paths_of(adapter)
    for _ in range(3):
        found = run_all(own, adapter, batches)
        for one, other in zip(found, expected, strict=True):
            pairs = zip(one, other, strict=True)
            assert all(np.array_equal(a["dense"], b["dense"]) for a, b in pairs)


@pytest.mark.parametrize("family", ["siglip", "siglip2"])
def test_recorded_passes_give_what_others_give_for_any_pictures(tmp_path, family, caplog):
    save(family, tmp_path, {"num_hidden_layers": 2})
    adapter, plain, own = loaded(tmp_path), loaded(tmp_path, paths=frozenset()), forwards()
    graphs = adapter._adapter._vectors._model.image_graphs
    rng = np.random.default_rng(0)
    known = sequences_of(adapter)
    for count in (3, 3, 3, 3, 30, 30, 30, 30, 4, 29, 1):
        batch = [known[place] for place in rng.integers(0, len(known), count)]
        found, expected = (
            np.concatenate([one["dense"] for one in own.run(which, batch)])
            for which in (adapter, plain)
        )
        assert lowest_cosine(found, expected) >= 0.9995
    assert len(graphs._graphs) >= 2
    assert "faster way off" not in caplog.text


def test_colours_arrive_whole_while_the_device_computes():
    rng = np.random.default_rng(0)
    busy = torch.randn(4_096, 4_096, device=CUDA)
    sums = []
    for _ in range(30):
        parts = [rng.integers(0, 256, (n, 768), dtype=np.uint8) for n in rng.integers(1, 400, 20)]
        there = joined_to_device(parts, CUDA)
        busy @ busy
        # Read late, and gone before the next is asked for.
        sums.append((there.long().sum(0), np.concatenate(parts).sum(0, dtype=np.int64)))
        del there
    for found, expected in sums:
        assert np.array_equal(found.cpu().numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_bytes_become_the_bits_that_their_floats_become(tmp_path, dtype):
    pair = next(pair for pair in PAIRS if pair.name == "siglip")
    save_pair(pair, tmp_path)
    patches = loaded(tmp_path, dtype, frozenset())._vectors._model.vision.patches
    weight = patches.weight.flatten(1)
    values = torch.arange(256, device=CUDA, dtype=torch.uint8)[:, None].repeat(1, weight.shape[1])
    with torch.inference_mode():
        x = torch.addcmul(patches.shift, values.float(), patches.scale).to(dtype)
        expected = torch.nn.functional.linear(x, weight, patches.bias)
        assert torch.equal(patches(values), expected)


@pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[2], PAIRS[4]], ids=lambda pair: pair.name)
def test_a_pass_does_not_wait_for_the_device(tmp_path, pair):
    save_pair(pair, tmp_path)
    adapter = loaded(tmp_path)
    sequences = sequences_of(adapter)
    with torch.inference_mode():
        adapter.forward(pack(sequences, CUDA, is_laid_out=True))
        torch.cuda.set_sync_debug_mode("error")
        try:
            outputs = adapter.forward(pack(sequences, CUDA, is_laid_out=True))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert outputs["dense"].values.isfinite().all()
