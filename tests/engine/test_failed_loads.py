"""Loads that fail: each kind by its own type, tried again after a while, never refused for ever."""

import pytest
import torch

from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine import loader as loading
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.loads import MAX_BACKOFF_S
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.errors import (
    DiskFull,
    DownloadFailed,
    ModelGated,
    ModelLoadFailed,
    OutOfMemory,
    SieError,
    WorkerLost,
)
from tests.engine.conftest import CPU, make_swaps, play, running
from tests.engine.test_faults import encode
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.toys import ToyLoader

REFUSED = "tried {} times, next in"


def checkpoint_loader(tmp_path) -> CheckpointLoader:
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    return CheckpointLoader(registry, CPU, torch.float32)


@pytest.mark.parametrize("kind", [DownloadFailed, ModelGated, DiskFull, ModelLoadFailed])
def test_a_model_that_failed_for_long_is_still_tried_within_the_longest_pause(kind):
    async def scenario():
        now_s = 0.0
        loader = ToyLoader(errors={"a": [kind("not yet") for _ in range(50)]})
        residency = Residency(loader, Ledger(1_000), make_swaps(), clock=lambda: now_s)

        async def call() -> None:
            async with residency.acquire("a", 10.0):
                return

        for attempt in range(1, 51):
            with pytest.raises(kind, match=r"^not yet$"):
                await call()
            if attempt > 1:
                with pytest.raises(kind, match=REFUSED.format(attempt)):
                    await call()
            card = residency.cards()["a"]
            assert card.last_error.permanent == (kind in (ModelGated, ModelLoadFailed))
            now_s += MAX_BACKOFF_S
        assert len(loader.loads) == 50
        await call()
        assert residency.cards()["a"].loaded
        await residency.aclose()

    play(scenario)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    save(ROWS[0], "dense", tmp_path)
    loader = checkpoint_loader(tmp_path)
    plan = loader.plan(str(tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "model.safetensors")

    monkeypatch.setattr(loading.create, "load_adapter", refuse)
    with pytest.raises(ModelLoadFailed, match=r"Permission denied: 'model.safetensors'"):
        loader.load(plan)
    monkeypatch.setattr(loading.create, "read_recipe", refuse)
    with pytest.raises(ModelLoadFailed, match=r"Permission denied: 'model.safetensors'"):
        loader.plan(str(tmp_path))


def test_weights_that_are_cut_short_fail_by_name_and_load_once_they_are_whole(tmp_path):
    save(ROWS[0], "dense", tmp_path)
    weights = tmp_path / "model.safetensors"
    content = weights.read_bytes()
    loader = checkpoint_loader(tmp_path)
    for size in (0, 7, len(content) // 2, len(content) - 1):
        weights.write_bytes(content[:size])
        with pytest.raises(ModelLoadFailed, match=r"model\.safetensors"):
            loader.load(loader.plan(str(tmp_path)))
    weights.write_bytes(content)
    assert loader.load(loader.plan(str(tmp_path))).card.size_bytes > 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), OutOfMemory),
        (torch.OutOfMemoryError("CUDA out of memory"), OutOfMemory),
        (RuntimeError("CUDA error: out of memory"), OutOfMemory),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), WorkerLost),
        (RuntimeError("something else"), RuntimeError),
    ],
    ids=str,
)
def test_what_a_load_meets_on_the_device_is_told_apart(tmp_path, monkeypatch, error, kind):
    folder = tmp_path / "model"
    folder.mkdir()
    save(ROWS[0], "dense", folder)

    def fail(*_: object, **__: object) -> None:
        raise error

    async def scenario():
        async with running(tmp_path, checkpoint_loader(tmp_path), budget=10**9) as rig:
            monkeypatch.setattr(loading.create, "load_adapter", fail)
            with pytest.raises(kind):
                await rig.engine.run(str(folder), encode("x"))
            assert (rig.device.failure is not None) == (kind is WorkerLost)
            assert rig.ledger.resident_bytes == 0
            if issubclass(kind, SieError) and kind is not WorkerLost:
                monkeypatch.undo()
                answer = await rig.engine.run(str(folder), encode("x"))
                assert answer.items[0].error is None

    play(scenario)


def test_what_a_model_takes_only_while_it_loads_is_counted_until_then():
    async def scenario():
        ledger = Ledger(100)
        residency = Residency(ToyLoader(loading_bytes={"b": 95}), ledger, make_swaps())
        for name in ("a", "b"):
            async with residency.acquire(name, 10.0):
                pass
        # Its neighbour had to leave for what its check holds; afterwards that is free again.
        assert (ledger.get("a"), ledger.free_bytes) == (None, 90)
        await residency.aclose()

    play(scenario)


def test_half_precision_on_a_cpu_takes_as_much_as_float32_while_it_is_checked(tmp_path):
    save(next(row for row in ROWS if row.name == "bert"), "dense", tmp_path)
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))
    half, full = (
        CheckpointLoader(registry, CPU, dtype).plan(str(tmp_path))
        for dtype in (torch.bfloat16, torch.float32)
    )
    assert half.size_bytes < half.loading_bytes == full.size_bytes
    assert full.loading_bytes == 0
