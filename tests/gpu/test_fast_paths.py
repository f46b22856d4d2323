"""Faster ways against the plain one on the device: every family, outputs, overlap, sums."""

from functools import partial

import numpy as np
import pytest
import torch

from evals.bench.forwards import run_all
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.agreement import comparable
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.adapters.layers.pooling import add_up
from sie_mcp.adapters.one_copy import to_device, to_host
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.recovery import Forwards
from tests.gpu.known import is_known
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, request_for

CUDA = torch.device("cuda", 0)
ALL = frozenset({"kernels", "graphs", "overlap"})
PAIRS = [
    (row, task) for row in ROWS if row.packed and is_known(row) for task in sorted(row.classes)
]
forwards = partial(
    Forwards, CUDA, lambda: False, lambda: None, lambda *_: None, retries_nonfinite=False
)


@pytest.mark.parametrize(("row", "task"), PAIRS, ids=[f"{row.name}-{task}" for row, task in PAIRS])
def test_each_way_passes_its_check_and_gives_what_the_plain_one_gives(
    tmp_path, row, task, record, caplog
):
    save(row, task, tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    plain, fast = (
        create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16, paths=paths)
        for paths in (frozenset(), ALL)
    )
    assert paths_of(fast) == ALL, caplog.text
    offered = [one for one in ("dense", "multivector") if one in plain.card.outputs]
    request = request_for(task, TEXTS, offered)
    expected = forwards().run(plain, plain.prepare(request).sequences)
    for _ in range(4):  # Until it is recorded.
        found = forwards().run(fast, fast.prepare(request).sequences)
    assert "faster way off" not in caplog.text
    worst = 1.0
    for one, other in zip(found, expected, strict=True):
        for name, numbers, values in comparable(one, other):
            a, b = numbers.ravel(), values.ravel()
            worst = min(worst, float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-9)))
            assert np.abs(a - b).max() <= 0.05 * max(np.abs(b).max(), 1.0), name
    record(row.name, task, "bfloat16", fast_against_plain=worst)


def test_batches_that_overlap_give_the_same_bits(tmp_path):
    row = next(row for row in ROWS if row.name == "bert")
    save(row, "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(
        recipe, device=CUDA, dtype=torch.bfloat16, paths=frozenset({"overlap"})
    )
    rng = np.random.default_rng(0)
    outputs = frozenset({"dense"})
    batches = [
        [Sequence(rng.integers(3, 60, n), outputs=outputs) for n in rng.integers(1, 90, 40)]
        for _ in range(12)
    ]
    own = forwards()
    expected = [own.run(adapter, batch) for batch in batches]
    assert paths_of(adapter) == {"overlap"}
    found = run_all(own, adapter, batches)
    for one, other in zip(found, expected, strict=True):
        assert all(np.array_equal(a["dense"], b["dense"]) for a, b in zip(one, other, strict=True))


def test_sums_are_the_same_bits_each_time():
    rng = np.random.default_rng(0)
    batch = pack([Sequence(np.zeros(n, np.int64)) for n in (1, 700, 3, 5000, 64)], CUDA)
    x = torch.from_numpy(rng.standard_normal((batch.num_tokens, 33)).astype(np.float32)).to(CUDA)
    with torch.inference_mode():
        first = add_up(x, batch)
        assert all(torch.equal(first, add_up(x, batch)) for _ in range(20))
        expected = torch.stack([one.double().sum(0) for one in x.split(batch.lengths)])
        torch.testing.assert_close(first.double(), expected, atol=1e-3, rtol=1e-5)
        wide = x[:, :30].reshape(-1, 3, 10)
        torch.testing.assert_close(
            add_up(wide, batch), add_up(wide, batch, in_order=False), atol=1e-3, rtol=1e-5
        )


def test_one_copy_carries_each_array_there_and_back():
    arrays = [np.arange(33, dtype=np.int64).reshape(3, 11), np.arange(7, dtype=np.int32)]
    there = to_device(arrays, CUDA)
    for array, tensor in zip(arrays, there, strict=True):
        assert np.array_equal(tensor.cpu().numpy(), array)
    for is_pinned in (True, False):
        back = to_host(there, is_pinned=is_pinned)()
        assert all(np.array_equal(one, two) for one, two in zip(back, arrays, strict=True))
