"""What the console shows, and to whom."""

import pytest

from sie_mcp import metrics
from sie_mcp.access.principal import RUN, Principal
from sie_mcp.gateway.console.looks import SeenWorker
from sie_mcp.gateway.console.state import (
    MAX_COLD,
    MAX_MODELS,
    MAX_WORKERS,
    ConsoleState,
    describe,
    figures,
)
from tests.gateway.console.accounts import pool, worker

OPERATOR = Principal("operator")
CALLER = Principal("caller", scopes=frozenset({RUN}))


def shown(*pools, known=(), caller=OPERATOR, has_figures=True) -> ConsoleState:
    return describe(pools, known, caller, has_figures=has_figures)


def test_models_are_on_a_device_beside_it_or_cold():
    state = shown(pool(worker("a", "b + lora", host=("a", "c"))), known=["a", "b", "c", "d"])
    (device,) = state.pools[0].workers[0].devices
    assert [(one.name, one.state, one.size_bytes) for one in device.models] == [
        ("a", "loaded", 100),
        ("b + lora", "loaded", 100),
        ("c", "host", 50),
    ]
    assert (device.resident_bytes, device.budget_bytes, device.reserved_bytes) == (200, 1_000, 10)
    assert (device.host_bytes, device.host_budget_bytes) == (100, 500)
    assert device.queue_tokens == 7
    assert state.cold == ["d"]
    assert (state.pools[0].waiting, state.pools[0].running) == (2, 3)


def test_a_worker_that_never_answered_is_there_and_not_ready():
    state = shown(pool(SeenWorker("http://10.0.0.9:1", False, None)))
    (one,) = state.pools[0].workers
    assert (one.name, one.is_ready, one.devices) == ("worker 1", False, [])


def test_models_of_others_are_counted_and_not_named():
    own = Principal("own", models=("mine-*",))
    loaded = worker("mine-a", "secret-b", "secret-c + x", host=("secret-d", "mine-e"))
    state = shown(pool(loaded), known=["mine-f", "secret-g"], caller=own)
    (device,) = state.pools[0].workers[0].devices
    assert [one.name for one in device.models] == ["mine-a", "mine-e"]
    assert device.others == 3
    assert state.cold == ["mine-f"]
    assert "secret" not in state.model_dump_json()


def test_addresses_and_figures_of_all_callers_are_for_those_who_may_move_models():
    for caller, is_told in ((OPERATOR, True), (CALLER, False)):
        state = shown(pool(worker("a")), caller=caller)
        assert (state.pools[0].workers[0].address is not None) == is_told
        assert (state.figures is not None) == is_told
    assert shown(pool(worker("a")), has_figures=False).figures is None


def test_what_is_left_out_is_counted():
    names = [f"m{number}" for number in range(MAX_MODELS + 3)]
    known = [f"cold-{number}" for number in range(MAX_COLD + 2)]
    state = shown(pool(*[worker(*names)] * (MAX_WORKERS + 1)), known=known)
    (first,) = state.pools
    assert (len(first.workers), first.others) == (MAX_WORKERS, 1)
    assert (len(first.workers[0].devices[0].models), first.workers[0].devices[0].others) == (
        MAX_MODELS,
        3,
    )
    assert (len(state.cold), state.others) == (MAX_COLD, 2)


@pytest.mark.parametrize(("outcome", "failed"), [("ok", 0), ("error", 1)])
def test_figures_add_up_all_tools(outcome, failed):
    before = figures()
    metrics.TOOL_CALLS.labels("rerank", outcome).inc()
    metrics.TOOL_ITEMS.labels("rerank").inc(2)
    metrics.TOOL_ITEMS.labels("embed").inc(3)
    metrics.TOOL_TOKENS.labels("embed").inc(40)
    after = figures()
    assert after.calls - before.calls == 1
    assert after.failed - before.failed == failed
    assert after.items - before.items == 5
    assert after.tokens - before.tokens == 40
