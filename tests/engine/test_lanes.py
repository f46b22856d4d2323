"""Several devices behind one engine: two lanes of toys, and two GPUs where there are."""

import asyncio
import random
import threading

import pytest
import torch

from sie_mcp import wire
from sie_mcp.engine.hardware import choose_devices, lane_name
from sie_mcp.errors import SettingError
from tests.engine.conftest import play, running, until
from tests.toys import ToyLoader, toy_vector


def encode(*texts: str, lora: str | None = None) -> wire.EncodeRequest:
    options = wire.EncodeOptions(lora=lora)
    return wire.EncodeRequest(
        items=[wire.Item(text=text) for text in texts], params=wire.EncodeParams(options=options)
    )


def loaders(count: int = 2, **options) -> list[ToyLoader]:
    return [ToyLoader(**options) for _ in range(count)]


def test_models_spread_over_the_devices_and_requests_go_where_theirs_is(tmp_path):
    async def scenario():
        both = loaders(sizes=dict.fromkeys("abcd", 40))
        async with running(tmp_path, *both, budget=100) as rig:
            for name in "abcdabcd":
                response = await rig.engine.run(name, encode("x"))
                assert (response.items[0].dense.values == toy_vector("x")).all()
            # Memory for two on each: all four stay, each loaded once.
            assert sorted(both[0].loads + both[1].loads) == list("abcd")
            assert [len(one.loads) for one in both] == [2, 2]

    play(scenario)


def test_two_new_models_at_once_load_on_two_devices(tmp_path):
    async def scenario():
        both = loaders()
        for one in both:
            one.gate.clear()
        async with running(tmp_path, *both) as rig:
            calls = [asyncio.create_task(rig.engine.run(name, encode("x"))) for name in "ab"]
            await until(lambda: all(lane.residency.num_loading for lane in rig.lanes.all))
            for one in both:
                one.gate.set()
            await asyncio.gather(*calls)
            assert sorted(both[0].loads + both[1].loads) == ["a", "b"]
            assert len(both[0].loads) == 1

    play(scenario)


def test_a_busy_model_gets_a_copy_which_then_shares_its_requests(tmp_path):
    async def scenario():
        gate = threading.Event()
        both = [ToyLoader(forward_gate=gate), ToyLoader()]
        async with running(tmp_path, *both, max_batch_sequences=1) as rig:
            first = rig.lanes.all[0]
            warm = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: "a" in both[0].adapters)
            gate.set()
            await warm
            gate.clear()
            rig.scheduler.note_speed("a", 1, 1_000.0)
            calls = [asyncio.create_task(rig.engine.run("a", encode(f"{n}"))) for n in range(4)]
            await until(lambda: first.thread.wait_s > 1.0)
            calls.append(asyncio.create_task(rig.engine.run("a", encode("more"))))
            second = rig.lanes.all[1]
            await until(lambda: second.state("a", 10).is_ready)
            await rig.engine.run("a", encode("elsewhere"))
            # Whether "more" waits at home depends on which was there first, it or the copy.
            assert both[1].adapters["a"].batches in ([1], [1, 1])
            gate.set()
            await asyncio.gather(*calls)
            card = await rig.engine.model("a")
            assert [one.device for one in card.residents] == ["cpu#0", "cpu#1"]
            assert card.resident_bytes == 20

    play(scenario)


def test_low_rank_adapters_follow_their_base(tmp_path):
    async def scenario():
        both = loaders(sizes={"a": 60, "b": 60})
        async with running(tmp_path, *both, budget=100) as rig:
            for name in "ab":
                await rig.engine.run(name, encode("x"))
            for name in "ab":
                await rig.engine.run(name, encode("x", lora="l"))
            assert [one.loads for one in both] == [["a", "a + l"], ["b", "b + l"]]

    play(scenario)


def test_out_of_memory_evicts_on_the_device_where_it_happened(tmp_path):
    async def scenario():
        both = loaders(sizes=dict.fromkeys("abcd", 40))
        async with running(tmp_path, *both, budget=100) as rig:
            for name in "abcd":
                await rig.engine.run(name, encode("x"))
            both[1].adapters["d"].error = torch.OutOfMemoryError("CUDA out of memory")
            response = await rig.engine.run("d", encode("x"))
            assert response.items[0].error.code == "RESOURCE_EXHAUSTED"
            held = [{one.name for one in lane.ledger.residents()} for lane in rig.lanes.all]
            assert held == [{"a", "c"}, {"d"}]

    play(scenario)


def test_a_copy_is_evicted_like_any_other(tmp_path):
    async def scenario():
        both = loaders(sizes={"a": 60, "b": 60, "c": 60})
        async with running(tmp_path, *both, budget=100) as rig:
            await rig.engine.run("a", encode("x"))
            rig.lanes.all[1].residency.start_load("a")
            await until(lambda: "a" in both[1].adapters)
            await rig.engine.run("b", encode("x"))
            held = [[one.name for one in lane.ledger.residents()] for lane in rig.lanes.all]
            assert sorted(held) == [["a"], ["b"]]

    play(scenario)


def test_every_answer_is_right_and_every_budget_kept_under_random_traffic(tmp_path):
    async def scenario():
        rng = random.Random(11)
        names = "abcdefgh"
        both = loaders(3, sizes={name: 20 + 5 * place for place, name in enumerate(names)})
        async with running(tmp_path, *both, budget=100) as rig:

            async def client(number: int) -> None:
                for turn in range(20):
                    text = f"{number} {turn}"
                    name = rng.choices(names, weights=[8, 4, 3, 2, 2, 1, 1, 1])[0]
                    response = await rig.engine.run(name, encode(text))
                    assert response.model == name
                    assert (response.items[0].dense.values == toy_vector(text)).all()
                    assert all(lane.ledger.free_bytes >= 0 for lane in rig.lanes.all)

            await asyncio.gather(*(client(number) for number in range(16)))
            assert all(lane.tokens == 0 for lane in rig.lanes.all)

    play(scenario)


@pytest.mark.parametrize(
    ("setting", "names"),
    [("cpu", ["cpu"]), ("cpu,cpu", ["cpu#0", "cpu#1"]), (" cpu , cpu ", ["cpu#0", "cpu#1"])],
)
def test_several_devices_are_named_with_commas(setting, names):
    devices = choose_devices(setting)
    assert [lane_name(devices, number) for number in range(len(devices))] == names


@pytest.mark.parametrize("setting", ["tpu:0", "cpu,,cpu", ""])
def test_an_unknown_device_is_refused(setting):
    with pytest.raises(SettingError, match="several with commas"):
        choose_devices(setting)


@pytest.mark.parametrize("setting", ["auto", "cuda"])
def test_all_cuda_devices_are_used_by_default(monkeypatch, setting):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(one) for one in choose_devices(setting)] == ["cuda:0", "cuda:1"]
    assert [str(one) for one in choose_devices("cuda:1")] == ["cuda:1"]
    with pytest.raises(SettingError, match="2 CUDA devices"):
        choose_devices("cuda:2")
