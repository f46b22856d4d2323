"""Models that leave the device for pinned memory and come back: bits, bytes, order of copies."""

import asyncio
import time

import numpy as np
import psutil
import pytest
import torch
from torch import nn

from sie_mcp import metrics, wire
from sie_mcp.adapters import create
from sie_mcp.adapters.flat import FlatWeights, flatten, weights_stream
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from tests.engine.conftest import running, until
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, request_for

CUDA = torch.device("cuda", 0)
MIB = 1024**2
BY_NAME = {row.name: row for row in ROWS}
FAMILIES = ["bert", "modernbert", "deberta-v2", "nomic_bert-experts", "t5", "qwen3", "albert"]
REQUEST = wire.EncodeRequest(items=[wire.Item(text="alpha beta")])


@pytest.fixture(scope="module")
def pages():
    return HostPages(is_pinned=True, page_bytes=MIB)


def pages_for(pages: HostPages, weights: FlatWeights) -> list[torch.Tensor]:
    return pages.get(range(-(-weights.size_bytes // pages.page_bytes)))


def on_device(module: nn.Module) -> FlatWeights:
    with weights_stream(CUDA):
        weights = flatten(module, CUDA, lambda _, one: one.dtype)
    torch.cuda.synchronize()
    return weights


def rows(adapter) -> list[np.ndarray]:
    sequences = adapter.prepare(request_for("dense", TEXTS)).sequences
    adapter.weights.follow()
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, CUDA)), len(sequences))
    return [one["dense"][0] for one in outputs]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_that_was_away_gives_the_same_bits(tmp_path, pages, name):
    save(BY_NAME[name], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16)
    weights = adapter.weights
    expected = rows(adapter)
    own = pages_for(pages, weights)
    weights.stage(own)
    held = torch.cuda.memory_allocated(CUDA)
    for _ in range(5):
        weights.leave()
        # The allocator counts whole blocks of 512 bytes.
        freed = held - torch.cuda.memory_allocated(CUDA)
        assert weights.size_bytes <= freed < weights.size_bytes + 512
        weights.enter(CUDA, own)
        found = rows(adapter)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        assert torch.cuda.memory_allocated(CUDA) == held


def test_weights_are_not_overwritten_while_a_kernel_still_reads_them(pages):
    first, second = (nn.Linear(4096, 4096, bias=False).requires_grad_(False) for _ in range(2))
    nn.init.ones_(first.weight)
    nn.init.zeros_(second.weight)
    leaving, coming = on_device(first), on_device(second)
    own = pages_for(pages, coming)
    coming.stage(own)
    coming.leave()
    torch.cuda.empty_cache()
    before = first.weight.data_ptr()
    torch.cuda._sleep(200_000_000)
    total = first.weight.sum(dtype=torch.float64)
    leaving.leave()
    coming.enter(CUDA, own)
    assert second.weight.data_ptr() == before
    assert total.item() == 4096 * 4096
    coming.arrived()
    assert not second.weight.any()


def test_what_runs_next_waits_for_the_copy_and_nobody_else_does(pages):
    module = nn.Linear(16_384, 8_192, bias=False).requires_grad_(False)
    nn.init.ones_(module.weight)
    weights = on_device(module)
    own = pages_for(pages, weights)
    weights.stage(own)
    for _ in range(5):
        weights.leave()
        weights.enter(CUDA, own)
        assert weights.is_coming
        weights.follow()
        assert module.weight.sum(dtype=torch.float64).item() == 16_384 * 8_192
    weights.arrived()
    assert not weights.is_coming


def test_a_swap_takes_as_long_as_the_bare_copy(pages, record):
    module = nn.Sequential(*(nn.Linear(1024, 1024).requires_grad_(False) for _ in range(160)))
    weights = on_device(module)
    big = HostPages(is_pinned=True)
    own = pages_for(big, weights)
    weights.stage(own)
    bare = bare_copy(weights.size_bytes)

    def swap() -> None:
        weights.leave()
        weights.enter(CUDA, own)
        weights.arrived()

    swaps = [timed(swap) for _ in range(10)]
    record(
        "linear layers",
        "swap",
        "float32",
        size_bytes=weights.size_bytes,
        bare_ms=1000 * bare,
        swap_ms=1000 * float(np.median(swaps)),
    )


def bare_copy(size_bytes: int) -> float:
    pinned = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size_bytes, dtype=torch.uint8, device=CUDA)
    times = [timed(lambda: target.copy_(pinned, non_blocking=True)) for _ in range(10)]
    return float(np.median(times))


def timed(function) -> float:
    torch.cuda.synchronize()
    started_s = time.perf_counter()
    function()
    torch.cuda.synchronize()
    return time.perf_counter() - started_s


def two_models(tmp_path) -> tuple[list[str], CheckpointLoader, int]:
    """Save two, and return their names, a loader and the size of each."""
    folders = [tmp_path / name for name in "ab"]
    for seed, folder in enumerate(folders):
        save(BY_NAME["bert"], "dense", folder, seed=seed)
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, CUDA, torch.bfloat16)
    names = [str(folder) for folder in folders]
    return names, loader, loader.plan(names[0]).size_bytes


def room_for_one(size: int) -> dict[str, int]:
    """Return budgets; the reserve is what the allocator may keep between swaps."""
    reserved = 64 * MIB
    budget = int(1.5 * size) + reserved
    return {
        "budget": budget, "reserved": reserved, "host_budget": 16 * MIB, "page_bytes": MIB,
    }  # fmt: skip


async def vector(rig, name: str) -> np.ndarray:
    response = await rig.engine.run(name, REQUEST)
    return response.items[0].dense.values


def counted(name: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, {"outcome": "ok"}) or 0.0


def used() -> tuple[int, int, int]:
    torch.cuda.synchronize()
    rss = psutil.Process().memory_info().rss
    return torch.cuda.memory_allocated(CUDA), torch.cuda.memory_reserved(CUDA), rss


@pytest.mark.timeout(300)
def test_two_models_in_turn_grow_nothing(tmp_path):
    """Cases T36 and its like: 200 requests in turn, then as many again as make 500 swaps."""
    names, loader, size = two_models(tmp_path)

    async def scenario() -> None:
        async with running(tmp_path, loader, device=CUDA, **room_for_one(size)) as rig:
            first: dict[str, np.ndarray] = {}
            loads = counted("sie_model_loads_total") + counted("sie_model_swaps_total")
            early = after = used()
            for turn in range(502):
                name = names[turn % 2]
                found = await vector(rig, name)
                assert np.array_equal(found, first.setdefault(name, found))
                if turn == 9:
                    early = used()
                if turn == 199:
                    after = used()
            await until(lambda: all(not one.users for one in rig.host.copies()))
            assert after[0] <= 1.02 * early[0]
            assert after[1] <= early[1] + 64 * MIB
            assert after[2] <= 1.05 * early[2]
            # After an even number of requests the same model is there as after the tenth.
            assert used()[0] == early[0]
            now = counted("sie_model_loads_total") + counted("sie_model_swaps_total")
            assert now - loads == 502
            assert rig.ledger.resident_bytes == size

    asyncio.run(scenario())


@pytest.mark.timeout(300)
def test_two_clients_on_room_for_one_are_served_in_turns(tmp_path):
    """Case T43: 200 ms a call, 50 calls each."""
    names, loader, size = two_models(tmp_path)
    load, faults = loader.load, []

    def load_slow(plan):
        adapter = load(plan)
        forward = adapter.forward

        def slow(batch):
            time.sleep(0.2)
            if not adapter.weights.is_here:
                faults.append(plan.name)
            outputs = forward(batch)
            torch.cuda.synchronize()
            if not adapter.weights.is_here:
                faults.append(plan.name)
            return outputs

        adapter.forward = slow
        return adapter

    loader.load = load_slow

    async def scenario() -> None:
        async with running(tmp_path, loader, device=CUDA, **room_for_one(size)) as rig:
            first = {name: await vector(rig, name) for name in names}
            before = counted("sie_model_swaps_total")
            waits = []

            async def client(name: str) -> None:
                for _ in range(50):
                    started_s = time.monotonic()
                    assert np.array_equal(await vector(rig, name), first[name])
                    waits.append(time.monotonic() - started_s)

            await asyncio.gather(*(client(name) for name in names))
            await until(lambda: all(not one.users for one in rig.host.copies()))
            assert not faults
            assert counted("sie_model_swaps_total") - before <= 50
            assert max(waits) <= 10 * 0.2

    asyncio.run(scenario())
