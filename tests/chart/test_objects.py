"""What rendered objects promise each other: selectors, ports, probes, times."""

import pytest
from starlette.testclient import TestClient

from sie_mcp.config import PREFIX, Config
from sie_mcp.engine.serving import CLOSING_S
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.pool.endpoint_slices import read_service
from tests.chart.rendering import (
    ASK_THE_API,
    SCENARIOS,
    container_of,
    environment_of,
    matches,
    of_kind,
    plan_of,
    pod_of,
    pods,
    rendered,
    workers,
)

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS)

# What a Secret would hold.
FROM_SECRETS = {"SIE_MCP_QUEUE_URI": "nats://user:password@nats:4222"}


@each_scenario
def test_nobody_sets_replicas_of_what_is_scaled(scenario):
    documents = rendered(scenario)
    scaled = {
        one["spec"]["scaleTargetRef"]["name"]
        for one in of_kind(documents, "ScaledObject", "HorizontalPodAutoscaler")
    }
    deployments = {one["metadata"]["name"]: one for one in of_kind(documents, "Deployment")}
    assert scaled <= deployments.keys()
    for name, one in deployments.items():
        assert ("replicas" in one["spec"]) == (name not in scaled), name


@each_scenario
def test_selectors_find_their_own_pods_and_no_others(scenario):
    documents = rendered(scenario)
    deployments = of_kind(documents, "Deployment")
    for one in deployments:
        found = [
            other["metadata"]["name"]
            for other in deployments
            if matches(one["spec"]["selector"], other["spec"]["template"]["metadata"]["labels"])
        ]
        assert found == [one["metadata"]["name"]]
    for one in of_kind(documents, "Service"):
        selector = {"matchLabels": one["spec"]["selector"]}
        assert [p for p in pods(documents) if matches(selector, p["metadata"]["labels"])]
    for one in of_kind(documents, "PodDisruptionBudget"):
        found = [
            p for p in pods(documents) if matches(one["spec"]["selector"], p["metadata"]["labels"])
        ]
        assert len(found) == 1


@each_scenario
def test_every_setting_of_a_pod_is_one_that_the_programs_take(scenario, monkeypatch):
    for pod in pods(rendered(scenario)):
        environment = environment_of(pod)
        ours = {
            name.removeprefix(PREFIX).lower() for name in environment if name.startswith(PREFIX)
        }
        assert ours <= Config.model_fields.keys()
        for name in list(environment):
            if name.startswith(PREFIX):
                value = environment[name]
                monkeypatch.setenv(name, FROM_SECRETS[name] if value is None else value)
        Config()


@each_scenario
def test_services_put_no_variables_into_pods(scenario):
    """They are named like settings (SIE_MCP_GATEWAY_PORT), and an unknown setting ends a start."""
    assert all(pod["spec"]["enableServiceLinks"] is False for pod in pods(rendered(scenario)))


@each_scenario
def test_probes_ask_for_paths_that_are_there(scenario):
    config = Config(host="127.0.0.1", worker_url="http://127.0.0.1:9")
    client = TestClient(build_app(config, files_allowed=False), base_url="http://10.0.0.1")
    for one in of_kind(rendered(scenario), "Deployment"):
        container = container_of(pod_of(one))
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            request = container[probe]["httpGet"]
            assert request["port"] in ports
            assert request["path"] in ("/healthz", "/readyz")
            assert client.get(request["path"]).status_code != 404


@each_scenario
def test_a_pod_has_time_to_leave(scenario):
    for one in of_kind(rendered(scenario), "Deployment"):
        pod = pod_of(one)
        container, environment = container_of(pod), environment_of(pod)
        grace_s = pod["spec"]["terminationGracePeriodSeconds"]
        before_s = (
            container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        )
        leaving_s = float(environment.get("SIE_MCP_DRAIN_S") or 0)
        leaving_s += float(environment["SIE_MCP_GRACEFUL_TIMEOUT_S"])
        assert grace_s > before_s + leaving_s
        is_spot = one["metadata"]["name"].endswith("-spot")
        assert grace_s <= 25 if is_spot else grace_s >= before_s + leaving_s + 5
        if container["name"] == "worker" and not is_spot:
            assert grace_s >= before_s + leaving_s + CLOSING_S


@each_scenario
def test_settings_files_are_mounted_where_they_are_read(scenario):
    for pod in pods(rendered(scenario)):
        mounts = [one["mountPath"] for one in container_of(pod).get("volumeMounts", [])]
        for name, value in environment_of(pod).items():
            if name.endswith(("_FILE", "CACHE_DIR")):
                assert any(value.startswith(mount) for mount in mounts), name
        names = {one["name"] for one in pod["spec"].get("volumes", [])}
        assert {one["name"] for one in container_of(pod).get("volumeMounts", [])} == names


@each_scenario
def test_the_plan_of_pools_names_the_services_of_the_workers(scenario, tmp_path):
    documents = rendered(scenario)
    plan = plan_of(documents, tmp_path)
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "Service")}
    for pool, one in plan.pools.items():
        if scenario in ASK_THE_API:
            asked = read_service(one.service)
            assert asked.namespace == "ns"
            name, port = asked.name, asked.port
        else:
            (url,) = one.workers
            host, port = url.removeprefix("dns://").rsplit(":", 1)
            name = host.removesuffix(".ns.svc")
        service = services[name]
        assert service["clusterIP"] == "None"
        assert service["selector"]["sie-mcp/pool"] == pool
        assert str(port) in {str(service["ports"][0]["port"]), service["ports"][0]["name"]}
    assert len(plan.pools) == len(workers(scenario))


def test_spot_pods_bear_their_taints_and_find_their_nodes():
    (spot,) = [one for one in workers("l4-spot") if one["metadata"]["name"].endswith("-spot")]
    spec = pod_of(spot)["spec"]
    assert spec["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-spot": "true",
    }
    assert {"nvidia.com/gpu", "cloud.google.com/gke-spot"} <= {
        one["key"] for one in spec["tolerations"]
    }
    assert container_of(pod_of(spot))["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_a_change_of_catalogue_or_pools_rolls_who_reads_it():
    first = [
        one["metadata"]["annotations"]
        for one in pods(rendered("multi-pool"))
        if "annotations" in one["metadata"]
    ]
    other = [
        one["metadata"]["annotations"]
        for one in pods(rendered("minimal"))
        if "annotations" in one["metadata"]
    ]
    gateway, plain = first[0], other[0]
    assert gateway["checksum/pools"] != plain["checksum/pools"]
    assert len({one.get("checksum/catalogue") for one in first if "checksum/catalogue" in one}) == 1
    assert gateway["checksum/catalogue"] != plain["checksum/catalogue"]


def test_an_inference_pool_names_the_workers_and_the_picker_that_chooses_them():
    documents = rendered("inference-pool")
    (pool,) = of_kind(documents, "InferencePool")
    spec = pool["spec"]
    found = [
        one
        for one in of_kind(documents, "Deployment")
        if matches(spec["selector"], pod_of(one)["metadata"]["labels"])
    ]
    assert found == workers("inference-pool")
    ports = {port["containerPort"] for one in found for port in container_of(pod_of(one))["ports"]}
    assert [one["number"] for one in spec["targetPorts"]] == list(ports)
    reference = spec["endpointPickerRef"]
    (service,) = [
        one for one in of_kind(documents, "Service") if one["metadata"]["name"] == reference["name"]
    ]
    (port,) = [
        one for one in service["spec"]["ports"] if one["port"] == reference["port"]["number"]
    ]
    (picker,) = [
        pod
        for pod in pods(documents)
        if matches({"matchLabels": service["spec"]["selector"]}, pod["metadata"]["labels"])
    ]
    named = {one["name"]: one["containerPort"] for one in container_of(picker)["ports"]}
    environment = environment_of(picker)
    assert named[port["targetPort"]] == int(environment["SIE_MCP_PICKER_PORT"])
    assert container_of(picker)["args"] == ["endpoint-picker"]
