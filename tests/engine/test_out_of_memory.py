"""A device, or a host, whose memory ends in the middle of a forward pass."""

import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import PackedBatch
from tests.engine.conftest import Rig, out_of_memory_steps, play, running
from tests.toys import ToyLoader, toy_vector

NO_MEMORY: list[Callable[[], Exception]] = [
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    lambda: MemoryError(),
    lambda: RuntimeError("CUDA error: out of memory"),
    lambda: RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
]


def fits(capacity: int, error: Callable[[], Exception] = NO_MEMORY[0]) -> Callable:
    """A device on which a batch of so many tokens runs, and no larger one."""

    def fault(batch: PackedBatch) -> None:
        if sum(batch.lengths) > capacity:
            raise error()

    return fault


async def encode(rig: Rig, model: str, *texts: str) -> list[wire.EncodedItem]:
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
    return (await rig.engine.run(model, request)).items


def check(items: list[wire.EncodedItem], texts: list[str]) -> None:
    for item, text in zip(items, texts, strict=True):
        assert item.error is None, item.error
        assert np.array_equal(item.dense.values, toy_vector(text))


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda make: type(make()).__name__)
def test_what_does_not_fit_runs_in_halves_and_the_next_batches_are_smaller(tmp_path, error):
    """Case T34."""

    async def scenario():
        loader = ToyLoader(fault=fits(8_192, error))
        async with running(tmp_path, loader, max_batch_tokens=16_384, max_batch_sequences=512) as r:
            texts = [f"{number} " + "w " * 125 for number in range(200)]
            halved = out_of_memory_steps("halve")
            check(await encode(r, "a", *texts), texts)
            assert out_of_memory_steps("halve") == halved + 1
            for _ in range(2):
                check(await encode(r, "a", *texts), texts)
            assert out_of_memory_steps("halve") == halved + 1
            # Another model never failed: its batches are as large as ever.
            loader.fault = None
            check(await encode(r, "b", *texts), texts)
            assert max(loader.adapters["b"].batches) > max(loader.adapters["a"].batches[1:])

    play(scenario)


def test_a_text_that_does_not_fit_alone_has_an_error_of_its_own(tmp_path):
    """Case T34, its last sentence."""

    async def scenario():
        async with running(tmp_path, ToyLoader(fault=fits(64))) as rig:
            texts = ["w " * 50, "w " * 300, "w " * 40]
            before = out_of_memory_steps("fail")
            items = await encode(rig, "a", *texts)
            assert [one.error and one.error.code for one in items] == [
                None,
                "RESOURCE_EXHAUSTED",
                None,
            ]
            assert "303 tokens does not fit" in items[1].error.message
            assert out_of_memory_steps("fail") == before + 1

    play(scenario)


def test_one_batch_evicts_one_idle_model_at_most(tmp_path):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig:
            for name in ("idle", "idler", "a"):
                await encode(rig, name, "x")
            loader.adapters["a"].fault = fits(0)
            items = await encode(rig, "a", "x", "y", "z")
            assert {item.error.code for item in items} == {"RESOURCE_EXHAUSTED"}
            assert {name for name, card in rig.residency.cards().items() if card.loaded} == {
                "idler",
                "a",
            }

    play(scenario)


def test_a_model_that_leaves_lets_what_did_not_fit_be_tried_again(tmp_path):
    async def scenario():
        loader = ToyLoader(fault=fits(500))
        async with running(tmp_path, loader) as rig:
            texts = [f"{number} " + "w " * 50 for number in range(18)]
            check(await encode(rig, "a", *texts), texts)
            loader.adapters["a"].fault = None
            rig.device.memory_came_free()
            await encode(rig, "a", *texts)
            await encode(rig, "a", *texts)
            assert loader.adapters["a"].batches[-1] == 18

    play(scenario)


def test_a_failed_pass_lets_go_of_its_tensors_before_the_next_try(tmp_path):
    """An exception's traceback holds the frames, and those the activations."""
    held: list[weakref.ref] = []

    async def scenario():
        def fault(batch: PackedBatch) -> None:
            assert [one() for one in held] == [None] * len(held)
            if batch.num_seqs > 1:
                activations = torch.zeros(3)
                held.append(weakref.ref(activations))
                raise torch.OutOfMemoryError("CUDA out of memory")

        async with running(tmp_path, ToyLoader(fault=fault)) as rig:
            check(await encode(rig, "a", "x", "y", "z", "u"), ["x", "y", "z", "u"])
            assert len(held) == 3

    play(scenario)
