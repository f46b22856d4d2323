"""The packed kernels in half precision against float32 on the CPU."""

import asyncio
from functools import partial

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import PackedBatch, Sequence
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from tests.engine.conftest import make_swaps, out_of_memory_steps, running
from tests.gpu.known import is_known
from tests.parity.checkpoints import save
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, request_for
from tests.toys import ToyLoader, toy_vector

LENGTHS = (200, 1, 37, 512, 8, 64)
HEADS = [(4, 4), (8, 2)]
# Of families that transformers runs, the vectors: its heads' rounding is not ours to judge. FNet's
# Fourier transforms have no half precision at all.
PAIRS = [
    (row, task)
    for row in ROWS
    if row.name != "fnet" and is_known(row)
    for task in (row.classes if row.packed else {"dense"} & row.classes.keys())
]
# Refused in float16; tests/adapters/test_dtypes.py.
OVERFLOWING = ("t5", "gemma2", "gemma3_text")


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(-1) / np.maximum(norms, 1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, (16, 16)])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), HEADS)
def test_the_kernel_equals_the_bucketed_path(dtype, causal, window, num_heads, num_kv_heads):
    torch.manual_seed(0)
    sequences = [Sequence(np.zeros(n, np.int64)) for n in LENGTHS]
    q = torch.randn(sum(LENGTHS), num_heads, 64).to(dtype)
    k = torch.randn(sum(LENGTHS), num_kv_heads, 64).to(dtype)
    v = torch.randn(sum(LENGTHS), num_kv_heads, 64).to(dtype)
    expected = attention(
        q.float(), k.float(), v.float(), pack(sequences, CPU), causal=causal, window=window
    )
    cuda = torch.device("cuda")
    found = attention(
        q.to(cuda), k.to(cuda), v.to(cuda), pack(sequences, cuda), causal=causal, window=window
    )
    difference = (found.float().cpu() - expected).abs()
    assert difference.max() < 3e-2
    assert difference.mean() < 2e-3
    other = attention(
        q.float(), k.float(), v.float(), pack(sequences, CPU), causal=not causal, window=window
    )
    assert (found.float().cpu() - other).abs().max() > 0.1


def test_tokens_that_are_not_attended_to_are_left_out_by_the_kernel():
    torch.manual_seed(0)
    sequences = [Sequence(np.zeros(n, np.int64), num_attended=max(n // 2, 1)) for n in LENGTHS]
    q, k, v = (torch.randn(sum(LENGTHS), 4, 64).bfloat16() for _ in range(3))
    expected = attention(q.float(), k.float(), v.float(), pack(sequences, CPU))
    cuda = torch.device("cuda")
    found = attention(q.to(cuda), k.to(cuda), v.to(cuda), pack(sequences, cuda))
    assert (found.float().cpu() - expected).abs().max() < 3e-2


def run_on(adapter, device, request):
    prepared = adapter.prepare(request)
    with torch.inference_mode():
        outputs = adapter.forward(pack(prepared.sequences, device))
    rows = unpack(outputs, len(prepared.sequences))
    return adapter.finish(request, prepared, rows), rows


def token_cosine(found: wire.EncodedItem, expected: wire.EncodedItem) -> float:
    """Return the mean over tokens; 1 where token vectors are not served."""
    if found.multivector is None or expected.multivector is None:
        assert found.multivector is expected.multivector
        return 1.0
    return float(cosines(found.multivector.values, expected.multivector.values).mean())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("row", "task"), PAIRS, ids=[f"{r.name}-{t}" for r, t in PAIRS])
def test_half_precision_on_the_device_agrees_with_float32_on_the_cpu(
    tmp_path, row, task, dtype, record
):
    if dtype == torch.float16 and row.name.startswith(OVERFLOWING):
        pytest.skip("overflows float16")
    save(row, task, tmp_path)
    cuda = torch.device("cuda")
    recipe = create.read_recipe("m", tmp_path, None)
    half = create.load_adapter(recipe, device=cuda, dtype=dtype)
    full = load(tmp_path)
    texts = TEXTS * 13
    request = request_for(task, texts[:64], row.outputs)
    found, found_rows = run_on(half, cuda, request)
    expected, expected_rows = run_on(full, CPU, request)
    note = partial(record, row.name, task, str(dtype).removeprefix("torch."))
    if task == "dense":
        pairs = list(zip(found.items, expected.items, strict=True))
        dense = min(cosines(a.dense.values, b.dense.values) for a, b in pairs)
        tokens = min(token_cosine(a, b) for a, b in pairs)
        alone, _ = run_on(half, cuda, request_for(task, texts[:1], row.outputs))
        same = cosines(alone.items[0].dense.values, found.items[0].dense.values)
        note(cosine=dense, token_cosine=tokens, one_against_64=same)
        assert dense >= 0.999
        assert tokens >= 0.999
        assert same >= 0.9999
    elif task == "sparse":
        pairs = list(zip(found.items, expected.items, strict=True))
        worst = min(cosines(spread(a.sparse), spread(b.sparse)) for a, b in pairs)
        note(cosine=worst)
        assert worst >= 0.999
    elif task == "cross_encoder":
        values = {one.index: one.score for one in found.scores}
        others = {one.index: one.score for one in expected.scores}
        distance = max(abs(values[i] - others[i]) for i in values)
        flips = [pair for pair in apart(others) if values[pair[0]] <= values[pair[1]]]
        note(difference=distance, flips=len(flips))
        assert distance < 0.1
        assert not flips
    else:
        agree = np.mean(
            [
                (a["tags"] == b["tags"]).mean()
                for a, b in zip(found_rows, expected_rows, strict=True)
            ]
        )
        note(agreement=agree)
        assert agree > 0.97


def apart(scores: dict[int, float]) -> list[tuple[int, int]]:
    """Return pairs of distinct texts, the better first, that bfloat16 can tell apart.

    It has steps of 1/128 of a number: what is closer has no order there.
    """
    texts = range(len(TEXTS))
    return [
        (better, worse)
        for better in texts
        for worse in texts
        if scores[better] - scores[worse] > max(abs(scores[better]), abs(scores[worse])) / 128
    ]


def spread(sparse: wire.Sparse) -> np.ndarray:
    full = np.zeros(sparse.dims, np.float32)
    full[sparse.indices] = sparse.values
    return full


def test_device_memory_is_exactly_back_after_many_swaps(tmp_path):
    """Case T43 on the device: memory for one model, two clients in turn."""
    row = ROWS[0]
    folders = [tmp_path / name for name in "ab"]
    for number, folder in enumerate(folders):
        save(row, "dense", folder, seed=number)
    cuda = torch.device("cuda", 0)
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, cuda, torch.bfloat16)
    size = loader.plan(str(folders[0])).size_bytes

    async def scenario() -> int:
        ledger = Ledger(int(size * 1.5))
        residency = Residency(loader, ledger, make_swaps(cuda))
        scheduler = Scheduler(
            max_batch_tokens=4096,
            max_batch_sequences=64,
            max_queue_tokens=100_000,
            max_age_s=5.0,
        )
        device = DeviceThread(cuda, scheduler, residency.evict_idle)
        lanes = Lanes([Lane("cuda:0", ledger, residency, device)])
        engine = Engine(registry, lanes, Limits(64, 10_000, 60.0), 2)
        device.start()
        request = wire.EncodeRequest(items=[wire.Item(text="alpha beta")])
        first = [(await engine.run(str(one), request)).items[0].dense.values for one in folders]

        async def client(number: int) -> None:
            for _ in range(50):
                response = await engine.run(str(folders[number]), request)
                assert np.array_equal(response.items[0].dense.values, first[number])

        # The first round warms up: each loading thread keeps a matrix-product workspace of its own.
        await asyncio.gather(client(0), client(1))
        await engine.run(str(folders[0]), request)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(cuda)
        await asyncio.gather(client(0), client(1))
        await engine.run(str(folders[0]), request)
        after = torch.cuda.memory_allocated(cuda)
        await engine.aclose()
        return after - before

    assert asyncio.run(scenario()) == 0


def test_a_batch_that_does_not_fit_the_device_runs_in_halves(tmp_path):
    """Case T34 on the device: activations of 16,384 tokens do not fit, of 8,192 they do."""
    cuda = torch.device("cuda", 0)
    total = torch.cuda.get_device_properties(cuda).total_memory

    def activations(batch: PackedBatch) -> None:
        torch.empty(sum(batch.lengths), 2**17, dtype=torch.uint8, device=cuda).zero_()

    async def scenario() -> None:
        loader = ToyLoader(fault=activations)
        settings = {"max_batch_tokens": 16_384, "max_batch_sequences": 512}
        async with running(tmp_path, loader, device=cuda, **settings) as rig:
            texts = [f"{number} " + "w " * 125 for number in range(200)]
            request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
            halved = out_of_memory_steps("halve")
            for _ in range(3):
                items = (await rig.engine.run("a", request)).items
                for item, text in zip(items, texts, strict=True):
                    assert np.array_equal(item.dense.values, toy_vector(text))
            assert out_of_memory_steps("halve") == halved + 1
            alone = wire.EncodeRequest(items=[wire.Item(text="w " * 4_900)] * 4)
            assert all(one.error is None for one in (await rig.engine.run("a", alone)).items)

    torch.cuda.empty_cache()
    # 8,192 tokens take 1 GiB, 16,384 take two.
    limit = torch.cuda.memory_reserved(cuda) + 1.5 * 2**30
    torch.cuda.set_per_process_memory_fraction(limit / total, cuda)
    try:
        asyncio.run(scenario())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, cuda)
        torch.cuda.empty_cache()
