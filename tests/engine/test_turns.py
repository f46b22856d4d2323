"""Case T43 on toys: two models in turn on memory for one, watched from within."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch
from sie_mcp.engine.loader import Plan
from tests.engine.conftest import play, running
from tests.toy_worker import SlowGate
from tests.toys import ToyAdapter, ToyLoader, toy_vector

CALLS = 50
# A call may meet the end of the other model's turn, a load of the other that was under way, and
# its own load.
MOST_LOADS = 3


@dataclass
class WatchedLoader:
    """Toys of which each forward pass is seen to begin and to end with its model in its place."""

    inner: ToyLoader
    is_loaded: Callable[[str], bool] = lambda _: True
    moved: list[str] = field(default_factory=list)

    def plan(self, name: str) -> Plan:
        return self.inner.plan(name)

    def load(self, plan: Plan) -> ToyAdapter:
        adapter = self.inner.load(plan)
        forward = adapter.forward

        def watched(batch: PackedBatch) -> Outputs:
            before = self.is_loaded(plan.name)
            outputs = forward(batch)
            if not (before and self.is_loaded(plan.name)):
                self.moved.append(plan.name)
            return outputs

        adapter.forward = watched
        return adapter


def test_two_models_in_turn_are_drained_not_starved_and_never_moved_while_they_run(tmp_path):
    async def scenario() -> None:
        toys = ToyLoader(
            sizes={"a": 80, "b": 80}, gate=SlowGate(0.03), forward_gate=SlowGate(0.005)
        )
        loader = WatchedLoader(toys)
        async with running(tmp_path, loader, budget=100) as rig:

            def is_loaded(name: str) -> bool:
                resident = rig.ledger.get(name)
                return resident is not None and resident.loaded_at_s is not None

            loader.is_loaded = is_loaded
            most = [0]

            async def client(model: str) -> None:
                for turn in range(CALLS):
                    text = f"{model} {turn}"
                    before = len(toys.loads)
                    request = wire.EncodeRequest(items=[wire.Item(text=text)])
                    response = await rig.engine.run(model, request)
                    assert (response.items[0].dense.values == toy_vector(text)).all()
                    most[0] = max(most[0], len(toys.loads) - before)

            await asyncio.gather(client("a"), client("b"))
            assert not loader.moved
            assert most[0] <= MOST_LOADS
            assert len(toys.loads) < CALLS // 2

    play(scenario)
