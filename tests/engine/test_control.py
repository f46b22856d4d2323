"""Moving models by hand: load, pin, unload, unused ones leaving, and the account that shows it."""

import asyncio
import threading

import pytest

from sie_mcp import wire
from sie_mcp.engine.control import Control, Housekeeping
from sie_mcp.errors import ModelInUse, ModelLoadFailed, ModelNotFound, OutOfMemory
from sie_mcp.wire_memory import MemoryAccount
from tests.engine.conftest import http, play, running, until
from tests.toys import ToyLoader


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def names(rig) -> set[str]:
    return {one.name for lane in rig.lanes.all for one in lane.ledger.residents()}


def test_a_load_is_begun_at_once_or_waited_for(tmp_path, toy_loader):
    async def scenario():
        toy_loader.gate.clear()
        async with running(tmp_path, toy_loader) as rig, http(rig) as client:
            answer = await client.post("/v1/models/org/a/load")
            assert answer.status_code == 202
            assert answer.json()["state"] == "loading"
            again = await client.post("/v1/models/org/a/load", json={"wait_s": 0.01})
            assert again.status_code == 202
            toy_loader.gate.set()
            answer = await client.post("/v1/models/org/a/load", json={"wait_s": 10, "pin": True})
            assert answer.status_code == 200
            card = answer.json()
            assert (card["name"], card["loaded"]) == ("org/a", True)
            assert card["residents"][0]["pinned"] is True
            assert toy_loader.loads == ["org/a"]

    play(scenario)


def test_who_waits_for_a_load_hears_why_it_failed(tmp_path, toy_loader):
    async def scenario():
        toy_loader.errors["a"] = [ModelLoadFailed("model.safetensors is cut short")]
        async with running(tmp_path, toy_loader) as rig, http(rig) as client:
            answer = await client.post("/v1/models/a/load", json={"wait_s": 10, "pin": True})
            assert answer.status_code == 502
            assert "cut short" in answer.json()["error"]["message"]
            assert (
                await client.post("/v1/models/missing/load", json={"wait_s": 10})
            ).status_code == 404
            await rig.engine.run("a", encode("x"))
            assert not rig.ledger.get("a").is_pinned

    play(scenario)


def test_a_pinned_model_stays_until_it_is_unpinned(tmp_path):
    async def scenario():
        loader = ToyLoader(sizes={"a": 60, "b": 60})
        async with running(tmp_path, loader, budget=100) as rig, http(rig) as client:
            assert (await client.post("/v1/models/a/pin")).status_code == 400
            await rig.engine.run("a", encode("x"))
            assert (await client.post("/v1/models/a/pin")).status_code == 200
            with pytest.raises(OutOfMemory, match="pinned models leave 40; unpin one of: a"):
                await rig.engine.run("b", encode("x"))
            assert (await client.post("/v1/models/a/unpin")).status_code == 200
            await rig.engine.run("b", encode("x"))
            assert names(rig) == {"b"}

    play(scenario)


def test_a_model_in_use_is_unloaded_only_by_who_waits(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader) as rig, http(rig) as client:
            call = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            refused = await client.post("/v1/models/a/unload")
            assert refused.status_code == 409
            assert refused.json()["error"]["code"] == "MODEL_IN_USE"
            assert "give wait_s" in refused.json()["error"]["message"]
            assert not rig.ledger.get("a").is_closing
            waiting = asyncio.create_task(client.post("/v1/models/a/unload", json={"wait_s": 20}))
            await until(lambda: rig.ledger.get("a").is_closing)
            gate.set()
            assert (await call).items[0].error is None
            answer = await waiting
            assert answer.status_code == 200
            assert answer.json()["devices"][0]["models"] == []
            # A model that is nowhere is unloaded already.
            assert (await client.post("/v1/models/a/unload")).status_code == 200

    play(scenario)


def test_a_model_that_is_being_loaded_is_in_use(tmp_path, toy_loader):
    async def scenario():
        toy_loader.gate.clear()
        async with running(tmp_path, toy_loader) as rig:
            control = Control(rig.lanes)
            await control.load("a", 0.0, pin=False)
            with pytest.raises(ModelInUse, match="a is loading on cpu#0"):
                await control.unload("a", 0.0)
            toy_loader.gate.set()
            await control.unload("a", 20.0)
            assert names(rig) == set()

    play(scenario)


def test_unused_models_leave_and_used_and_pinned_ones_stay(tmp_path):
    async def scenario():
        gate = threading.Event()
        gate.set()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader) as rig:
            control = Control(rig.lanes)
            for name in ("unused", "pinned", "busy"):
                await rig.engine.run(name, encode("x"))
            control.pin("pinned")
            gate.clear()
            call = asyncio.create_task(rig.engine.run("busy", encode("x")))
            await until(lambda: loader.num_held == 1)
            async with Housekeeping(idle_s=0.02).running(control):
                await until(lambda: "unused" not in names(rig))
                assert names(rig) == {"pinned", "busy"}
                gate.set()
                await call
                await until(lambda: names(rig) == {"pinned"})

    play(scenario)


def test_models_of_the_settings_are_brought_up_at_the_start(tmp_path, toy_loader):
    async def scenario():
        async with running(tmp_path, toy_loader) as rig:
            keeping = Housekeeping(preload=("a", "missing", "b"), pinned=("b", "c"))
            async with keeping.running(Control(rig.lanes)):
                await until(lambda: set(toy_loader.loads) == {"a", "b", "c"})
                await until(lambda: names(rig) == {"a", "b", "c"})
            assert [rig.ledger.is_pinned(name) for name in "abc"] == [False, True, True]

    play(scenario)


def test_the_account_says_what_is_where_and_what_loading_bought(tmp_path):
    async def scenario():
        loaders = [ToyLoader(sizes={"a": 60, "b": 70}), ToyLoader(sizes={"a": 60, "b": 70})]
        async with running(tmp_path, *loaders, budget=100) as rig, http(rig) as client:
            for name in ("a", "b", "b"):
                await rig.engine.run(name, encode("one two", "three"))
            account = MemoryAccount.model_validate((await client.get("/v1/memory")).json())
            first, second = account.devices
            assert (first.device, second.device) == ("cpu#0", "cpu#1")
            assert (second.budget_bytes, second.resident_bytes, second.free_bytes) == (100, 70, 30)
            assert second.allocated_bytes is None
            (model,) = second.models
            assert (model.name, model.state, model.users, model.pinned) == ("b", "loaded", 0, False)
            assert (model.thrash.loads, model.thrash.requests_per_load) == (1, 2.0)
            assert model.thrash.tokens_per_load == 2 * (5 + 4)
            assert model.thrash.device_s > 0
            assert second.thrash.loads_per_minute == 1
            listing = await rig.engine.models()
            assert listing.memory["resident_bytes"] == 130
            assert [one.device for one in (await rig.engine.model("b")).residents] == ["cpu#1"]

    play(scenario)


@pytest.mark.parametrize("verb", ["load", "unload", "pin", "unpin"])
def test_models_are_moved_only_where_the_settings_allow_it(tmp_path, verb):
    async def scenario():
        async with running(tmp_path) as rig, http(rig, allows_control=False) as client:
            answer = await client.post(f"/v1/models/a/{verb}")
            assert answer.status_code == 403
            assert "SIE_MCP_ALLOW_MODEL_CONTROL=true" in answer.json()["error"]["message"]
            assert (await client.get("/v1/memory")).status_code == 200
            assert names(rig) == set()

    play(scenario)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("load", {"wait": 1}),
        ("load", {"wait_s": -1}),
        ("unload", {"tier": "disk"}),
        ("pin", {"x": 1}),
    ],
)
def test_a_wrong_body_is_refused(tmp_path, verb, body):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            assert (await client.post(f"/v1/models/a/{verb}", json=body)).status_code == 400

    play(scenario)


def test_a_load_of_a_name_that_does_not_exist_leaves_no_trace(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            control = Control(rig.lanes)
            with pytest.raises(ModelNotFound):
                await control.load("missing", 10.0, pin=True)
            assert not rig.ledger.is_pinned("missing")

    play(scenario)
