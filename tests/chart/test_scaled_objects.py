"""What a ScaledObject says: who wakes a pool, what sizes it, and what never takes workers away."""

import pytest
import yaml
from starlette.testclient import TestClient

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.pool.scale import SCALE_PATH
from tests.chart.rendering import (
    SCENARIOS,
    container_of,
    helm,
    of_kind,
    plan_of,
    pod_of,
    pods,
    rendered,
    workers,
)

# Known without rendering, so that collecting needs no Helm.
KEDA = ["inference-pool", "keda", "l4-spot", "multi-pool", "node-cache", "queue"]
each_with_keda = pytest.mark.parametrize("scenario", KEDA)


def wakes_of(scaled: dict) -> list[dict]:
    """Return the triggers that ask gateways and pickers."""
    triggers = scaled["spec"]["triggers"]
    return [one["metadata"] for one in triggers if one.get("name", "").startswith("wake")]


def test_the_scenarios_with_keda_are_those_named_here():
    found = [one for one in SCENARIOS if of_kind(rendered(one), "ScaledObject")]
    assert found == KEDA


@each_with_keda
def test_a_pool_wakes_by_the_gateways_own_count(scenario, tmp_path):
    documents = rendered(scenario)
    plan = plan_of(documents, tmp_path)
    (gateway,) = [one for one in pods(documents) if "serve" in container_of(one).get("args", [])]
    port = container_of(gateway)["ports"][0]["containerPort"]
    for one in of_kind(documents, "ScaledObject"):
        wakes = wakes_of(one)
        pool = one["metadata"]["labels"]["sie-mcp/pool"]
        services = ["gateway", *(["endpoint-picker"] if scenario == "inference-pool" else [])]
        assert [wake["url"] for wake in wakes] == [
            f"http://rel-sie-mcp-{service}.ns.svc.cluster.local:{port}{SCALE_PATH}"
            for service in services
        ]
        for wake in wakes:
            assert wake["valueLocation"] == f"pools.{pool}"
            assert wake["aggregateFromKubeServiceEndpoints"] == "true"
            assert float(wake["targetValue"]) <= plan.pools[pool].slots


@each_with_keda
def test_losing_sight_of_demand_takes_no_workers_away(scenario):
    for one in of_kind(rendered(scenario), "ScaledObject"):
        spec = one["spec"]
        assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
        assert spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
        assert spec["advanced"]["restoreToOriginalReplicaCount"] is False
        (demand,) = [t["metadata"] for t in spec["triggers"] if t["type"] == "prometheus"]
        assert demand["ignoreNullValues"] == "false"
        assert "vector(" not in demand["query"]
        assert not {"replicas", "idleReplicaCount"} & spec.keys()


@each_with_keda
def test_a_pool_does_not_sleep_before_it_woke(scenario):
    documents = rendered(scenario)
    budgets = {
        one["metadata"]["name"]: container_of(pod_of(one))["startupProbe"]
        for one in workers(scenario)
    }
    for one in of_kind(documents, "ScaledObject"):
        probe = budgets[one["spec"]["scaleTargetRef"]["name"]]
        assert one["spec"]["cooldownPeriod"] >= probe["periodSeconds"] * probe["failureThreshold"]


def named(document) -> str:
    return document["metadata"]["name"]


def test_a_pools_false_and_zero_come_before_its_profiles_values():
    settings = {
        "keda.mode": "on",
        "profiles.cpu.minReplicas": "2",
        "profiles.cpu.surge": "true",
        "profiles.cpu.fill": "50",
        "pools.cpu.minReplicas": "0",
        "pools.cpu.surge": "false",
    }
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    done = helm("helm4", "template", *options)
    documents = tuple(one for one in yaml.safe_load_all(done.stdout) if one)
    (scaled,) = of_kind(documents, "ScaledObject")
    (worker,) = [
        one for one in of_kind(documents, "Deployment") if "pool" in one["metadata"]["name"]
    ]
    assert scaled["spec"]["minReplicaCount"] == 0
    assert scaled["spec"]["triggers"][0]["metadata"]["threshold"] == "4"
    assert worker["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@each_with_keda
def test_a_gateway_with_the_rendered_plan_names_every_pool_to_a_scaler(scenario, tmp_path):
    documents = rendered(scenario)
    plan_of(documents, tmp_path)
    (tmp_path / "token").write_text("t")
    config = Config(pools_file=tmp_path / "pools.toml", kubernetes_credentials_dir=tmp_path)
    client = TestClient(build_app(config, files_allowed=False), base_url="http://10.0.0.1")
    answer = client.get(SCALE_PATH).json()
    for one in of_kind(documents, "ScaledObject"):
        wakes = wakes_of(one)
        assert wakes
        for wake in wakes:
            first, pool = wake["valueLocation"].split(".")
            assert answer[first][pool] == 0


@each_with_keda
def test_a_pool_is_wanted_at_the_fill_of_its_slots_by_both_triggers(scenario, tmp_path):
    documents = rendered(scenario)
    plan = plan_of(documents, tmp_path)
    for one in of_kind(documents, "ScaledObject"):
        slots = plan.pools[one["metadata"]["labels"]["sie-mcp/pool"]].slots
        triggers = {t.get("name"): t["metadata"] for t in one["spec"]["triggers"]}
        assert triggers["demand"]["threshold"] == triggers["wake"]["targetValue"]
        assert triggers["demand"]["threshold"] == str(int(slots * 0.7))
