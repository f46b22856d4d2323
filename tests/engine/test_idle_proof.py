"""An idle worker proves itself by a real forward pass that counts as nobody's use."""

import asyncio

import pytest

from sie_mcp import wire
from sie_mcp.engine.idle_proof import IdleProof, _request
from sie_mcp.engine.server import Activity
from tests.engine.conftest import play, running, until
from tests.engine.test_faults import encode
from tests.toys import ToyAdapter, ToyLoader


def test_the_model_used_last_runs_and_stays_as_old_as_it_was(tmp_path):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig:
            proof = IdleProof(rig.residency, rig.device)
            assert not await proof.prove()
            for name in ("older", "newer"):
                await rig.engine.run(name, encode("x"))
            before = [(one.name, one.last_used_s, one.users) for one in rig.ledger.residents()]
            assert await proof.prove()
            assert loader.adapters["newer"].batches == [1, 1]
            assert loader.adapters["older"].batches == [1]
            after = [(one.name, one.last_used_s, one.users) for one in rig.ledger.residents()]
            assert after == before

    play(scenario)


def test_only_an_idle_worker_proves_itself_again_and_again(tmp_path):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig:
            await rig.engine.run("a", encode("x"))
            activity = Activity()
            activity.in_flight = 1
            idle_since_s = activity.last_s
            proving = asyncio.create_task(IdleProof(rig.residency, rig.device).run(activity, 0.01))
            for number in range(20):
                await rig.engine.run("b", encode(f"{number}"))
            assert loader.adapters["a"].batches == [1]
            assert sum(loader.adapters["b"].batches) == 20
            activity.in_flight = 0
            await until(lambda: sum(loader.adapters["b"].batches) > 22)
            assert activity.last_s == idle_since_s
            rig.device.fail("lost")
            await asyncio.wait({proving}, timeout=10)
            assert proving.done()

    play(scenario)


@pytest.mark.parametrize(
    ("error", "words"),
    [(ValueError("broken"), "proof failed model=a"), (SystemExit(1), "no proof model=a")],
)
def test_a_proof_that_fails_is_reported(tmp_path, caplog, error, words):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig:
            await rig.engine.run("a", encode("x"))
            loader.adapters["a"].error = error
            await IdleProof(rig.residency, rig.device).prove()
            assert words in caplog.text
            assert rig.device.is_alive == isinstance(error, ValueError)

    play(scenario)


@pytest.mark.parametrize(
    ("primitives", "labels", "expected"),
    [
        (["score", "encode"], None, wire.EncodeRequest),
        (["score"], None, wire.ScoreRequest),
        (["extract"], None, wire.ExtractRequest),
        (["extract"], ["name"], wire.ExtractRequest),
    ],
)
def test_every_kind_of_model_gets_a_request_that_it_takes(primitives, labels, expected):
    adapter = ToyAdapter("a")
    adapter.card = adapter.card.model_copy(update={"primitives": primitives, "labels": labels})
    request = _request(adapter)
    assert isinstance(request, expected)
    if isinstance(request, wire.ExtractRequest):
        assert (request.params.labels is None) == (labels is not None)
