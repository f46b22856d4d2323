"""What the chart says of the broker is what gateways and workers make of it."""

import re

import anyio
import httpx2
import pytest

from sie_mcp.broker.broker import Bounds
from sie_mcp.broker.messages import ID
from sie_mcp.broker.names import KINDS, LANES, consumer_of, stream_of, subject_of, token_of
from sie_mcp.broker.nats_broker import NatsBroker
from sie_mcp.config import Config
from tests.chart.rendering import environment_of, of_kind, plan_of, pods, rendered
from tests.nats_servers import NatsServer

SCENARIO = "queue"


def triggers(of_type: str = "nats-jetstream") -> list[dict]:
    (one,) = of_kind(rendered(SCENARIO), "ScaledObject")
    return [t for t in one["spec"]["triggers"] if t["type"] == of_type]


def waiting() -> list[dict]:
    """Return the triggers that ask the broker for a whole stream."""
    return [t["metadata"] for t in triggers("metrics-api") if t["name"].startswith("waiting-")]


def value_at(location: str, answer: dict) -> int:
    """Follow a path of the form that the chart writes (github.com/tidwall/gjson, SYNTAX.md)."""
    form = re.fullmatch(
        r'\[account_details\.#\(name=="([^"]+)"\)\.stream_detail\.#\(name=="([^"]+)"\)'
        r"\.state\.messages,!0\]\.0",
        location,
    )
    assert form, location
    account, stream = form.groups()
    streams = [
        one
        for found in answer["account_details"]
        if found["name"] == account
        for one in found.get("stream_detail", [])
        if one["name"] == stream
    ]
    return streams[0]["state"]["messages"] if streams else 0


def test_what_waits_is_counted_at_the_consumers_that_gateways_keep(tmp_path):
    plan = plan_of(rendered(SCENARIO), tmp_path)
    counted = {(one["metadata"]["stream"], one["metadata"]["consumer"]) for one in triggers()}
    assert counted == {
        (stream_of(kind, pool), consumer_of("work", token_of(model) or ""))
        for pool in plan.pools
        for model in plan.models_of(pool)
        for kind in KINDS
    }
    assert len({one["name"] for one in triggers()}) == len(triggers())


@pytest.mark.anyio
async def test_a_pool_is_counted_as_a_whole_by_what_the_broker_says_of_it(tmp_path):
    server = NatsServer(tmp_path, monitored=True)
    found = waiting()
    assert len(found) == len(KINDS)
    try:
        server.start()
        broker = NatsBroker(server.uri, "test", Bounds())
        async with broker.running(), httpx2.AsyncClient(base_url=server.monitor_url) as http:
            with anyio.fail_after(20):
                while not broker.is_up:
                    await anyio.sleep(0.01)

            async def counts() -> list[int]:
                asked = [one["url"].partition("/jsz?")[2] for one in found]
                answers = [(await http.get(f"/jsz?{query}")).json() for query in asked]
                pairs = zip(found, answers, strict=True)
                return [value_at(one["valueLocation"], answer) for one, answer in pairs]

            assert await counts() == [0, 0]
            await broker.prepare("cpu")
            for number in range(3):
                # No model of the catalogue's map, and one that runs alone.
                lane = LANES[number % 2]
                await broker.put(subject_of("jobs", "cpu", lane, "any"), b"x", {ID: f"{number}"})
            assert await counts() == [0, 3]
    finally:
        server.kill()


def test_a_queue_sizes_a_pool_as_demand_does():
    (one,) = of_kind(rendered(SCENARIO), "ScaledObject")
    (demand,) = [t["metadata"] for t in one["spec"]["triggers"] if t.get("name") == "demand"]
    for found in waiting():
        assert found["targetValue"] == demand["threshold"]
        assert found["activationTargetValue"] == "0"
    for found in triggers():
        assert found["metadata"]["lagThreshold"] == demand["threshold"]
        assert found["metadata"]["activationLagThreshold"] == "0"


def test_the_address_comes_from_a_secret_for_gateways_and_workers():
    for pod in pods(rendered(SCENARIO)):
        (container,) = pod["spec"]["containers"]
        named = {one["name"]: one for one in container.get("env", [])}
        if {"serve", "worker"} & set(container.get("args", [])):
            found = named["SIE_MCP_QUEUE_URI"]["valueFrom"]["secretKeyRef"]
            assert found == {"name": "nats-address", "key": "uri"}
            known = {f"SIE_MCP_{name.upper()}" for name in Config.model_fields}
            assert {name for name in environment_of(pod) if name.startswith("SIE_MCP_")} <= known


def test_both_may_reach_the_broker():
    policies = of_kind(rendered(SCENARIO), "NetworkPolicy")
    (all_pods,) = [one for one in policies if one["metadata"]["name"].endswith("default-deny")]
    assert any(
        rule["ports"] == [{"protocol": "TCP", "port": 4222}] and "data" in str(rule["to"])
        for rule in all_pods["spec"]["egress"]
    )


def test_without_a_secret_there_is_no_trace_of_a_queue():
    for one in rendered("keda"):
        assert "nats" not in str(one).lower()
        assert "QUEUE" not in str(one)
