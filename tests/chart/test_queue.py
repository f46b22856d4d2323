"""What the chart says of the broker is what gateways and workers make of it."""

from sie_mcp.broker.names import KINDS, consumer_of, stream_of, token_of
from sie_mcp.config import Config
from tests.chart.rendering import environment_of, of_kind, plan_of, pods, rendered

SCENARIO = "queue"


def triggers() -> list[dict]:
    (one,) = of_kind(rendered(SCENARIO), "ScaledObject")
    return [t for t in one["spec"]["triggers"] if t["type"] == "nats-jetstream"]


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


def test_a_queue_sizes_a_pool_as_demand_does():
    (one,) = of_kind(rendered(SCENARIO), "ScaledObject")
    (demand,) = [t["metadata"] for t in one["spec"]["triggers"] if t.get("name") == "demand"]
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
