"""Two devices behind one engine: models on both, the same numbers on either."""

import asyncio

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.swaps import Swaps
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")


def test_models_run_on_two_devices_and_a_copy_gives_the_same_numbers(tmp_path):
    folders = [str(tmp_path / name) for name in "ab"]
    for number, name in enumerate("ab"):
        save(ROWS[0], "dense", tmp_path / name, seed=number)
    registry = Registry(Catalogue(models=()), tmp_path, FetchOptions(offline=True))

    def lane(number: int) -> Lane:
        device = torch.device("cuda", number)
        loader = CheckpointLoader(registry, device, torch.bfloat16)
        ledger = Ledger(int(loader.plan(folders[0]).size_bytes * 1.5))
        pages = HostPages(is_pinned=True)
        residency = Residency(loader, ledger, Swaps(device, HostLedger(0, pages.page_bytes), pages))
        scheduler = Scheduler(
            max_batch_tokens=4096, max_batch_sequences=64, max_queue_tokens=100_000, max_age_s=5.0
        )
        thread = DeviceThread(device, scheduler, residency.evict_idle)
        return Lane(str(device), ledger, residency, thread)

    async def scenario() -> None:
        lanes = Lanes([lane(0), lane(1)])
        engine = Engine(registry, lanes, Limits(64, 10_000, 60.0), 2)
        for one in lanes.all:
            one.thread.start()
        request = wire.EncodeRequest(items=[wire.Item(text="alpha beta")])
        first = [(await engine.run(one, request)).items[0].dense.values for one in folders]
        held = [[model.name for model in one.ledger.residents()] for one in lanes.all]
        assert held == [[folders[0]], [folders[1]]]
        # The second model makes room for a copy of the first, which then runs there alone.
        async with lanes.all[1].residency.acquire(folders[0], 60.0):
            with lanes.all[0].claimed(1_000):
                again = (await engine.run(folders[0], request)).items[0].dense.values
        assert np.array_equal(again, first[0])
        assert lanes.all[1].residency.thrash.figures(0.0, folders[0]).requests_per_load == 1
        await engine.aclose()

    asyncio.run(scenario())
