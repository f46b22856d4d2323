"""Batch sizes measured on the device, through the real queue and thread."""

import asyncio
import time

import torch

from sie_mcp.catalogue import batch_sizes
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.batch_sizes import BatchSizes, bounds
from sie_mcp.engine.calibration import LIMIT_S, Calibration
from sie_mcp.engine.hardware import device_label
from sie_mcp.engine.knee import NUM_ROUNDS
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.passes import MAX_PASSES
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.server import Activity
from tests.engine.conftest import play, running
from tests.engine.test_faults import encode
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.toy_worker import CATALOGUE

CUDA = torch.device("cuda", 0)
DEFAULT, BUDGET, BYTES_PER_TOKEN = 16_384, 16 * 2**32, 65_536


def test_a_model_on_the_device_is_measured_in_time(tmp_path, record):
    folder = tmp_path / "model"
    save(next(row for row in ROWS if row.name == "bert"), "dense", folder)
    registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, CUDA, torch.bfloat16)

    async def scenario():
        scheduling = {"max_batch_tokens": DEFAULT, "max_batch_sequences": 512}
        async with running(tmp_path, loader, device=CUDA, budget=BUDGET, **scheduling) as rig:
            limits = bounds(CUDA, DEFAULT, BUDGET, BYTES_PER_TOKEN)
            assert limits.most == 4 * DEFAULT
            sizes = BatchSizes(tmp_path, device_label(CUDA, "auto", ()), limits, lambda _: None)
            rig.device.batch_sizes = sizes
            skipped_s = 0.0
            one = Calibration(
                rig.lanes.all[0],
                sizes,
                asyncio.Lock(),
                clock=lambda: time.perf_counter() + skipped_s,
                held_up=lambda: 0.0,
            )
            await rig.engine.run(str(folder), encode("x"))
            for _ in range(MAX_PASSES):
                if await one.measure(Activity()):
                    break
                skipped_s += 3_600.0  # The pause until the next measurement.
            (measured,) = batch_sizes.read(tmp_path)
            assert torch.cuda.get_device_name() in measured.device
            assert DEFAULT // 16 <= measured.tokens <= limits.most
            spent_s = sum(NUM_ROUNDS * size / rate for size, rate in measured.curve)
            rates = {str(size): rate for size, rate in measured.curve}
            record("bert", "batch_sizes", "bfloat16", knee=measured.tokens, **rates)
            assert spent_s < 2 * LIMIT_S

    play(scenario)
