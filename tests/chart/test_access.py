"""Who may reach whom, what a pod may do, and who holds a token."""

import re

import pytest

from sie_mcp.config import Config
from sie_mcp.gateway.pool.kubernetes_api import CERTIFICATE, TOKEN
from tests.chart.rendering import (
    ASK_THE_API,
    ROOT,
    SCENARIOS,
    container_of,
    environment_of,
    matches,
    of_kind,
    pod_of,
    pods,
    rendered,
)

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


@each_scenario
def test_a_pod_is_what_restricted_asks_for(scenario):
    for pod in pods(rendered(scenario)):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        security = container_of(pod)["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        kinds = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
        kinds -= {"projected"} if asks_the_api(pod, scenario) else set()
        allowed = {"emptyDir", "configMap", "secret", "persistentVolumeClaim", "image"}
        assert kinds <= allowed | ({"hostPath"} if scenario == "node-cache" else set())


@each_scenario
def test_nobody_may_ask_the_api_server_but_gateways_for_endpoint_slices(scenario):
    documents = rendered(scenario)
    roles = of_kind(documents, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    if scenario not in ASK_THE_API:
        assert roles == []
        return
    role, binding = roles
    assert role["kind"] == "Role"
    assert role["rules"] == [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    assert binding["kind"] == "RoleBinding"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    accounts = {one["name"] for one in binding["subjects"]}
    assert accounts == {
        pod["spec"]["serviceAccountName"] for pod in pods(documents) if asks_the_api(pod, scenario)
    }


def test_the_token_for_the_api_lies_where_the_program_looks_for_it():
    default = Config.model_fields["kubernetes_credentials_dir"].default
    for scenario in ASK_THE_API:
        for pod in pods(rendered(scenario)):
            mounts = {one["name"]: one for one in container_of(pod).get("volumeMounts", [])}
            assert ("api" in mounts) == asks_the_api(pod, scenario)
            if "api" not in mounts:
                continue
            assert mounts["api"]["mountPath"] == str(default)
            (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "api"]
            token, certificate = volume["projected"]["sources"]
            assert token["serviceAccountToken"]["path"] == TOKEN
            assert certificate["configMap"]["items"][0]["path"] == CERTIFICATE


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "cpu-dev"])
def test_policies_are_about_every_pod_and_open_no_more_than_its_ports(scenario):
    documents = rendered(scenario)
    policies = of_kind(documents, "NetworkPolicy")
    (deny,) = [one["spec"] for one in policies if one["metadata"]["name"].endswith("-default-deny")]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in deny
    for one in of_kind(documents, "Deployment"):
        labels = pod_of(one)["metadata"]["labels"]
        assert matches(deny["podSelector"], labels)
        own = {port["containerPort"] for port in container_of(pod_of(one))["ports"]}
        opened = [
            port["port"]
            for policy in policies
            if matches(policy["spec"]["podSelector"], labels)
            for rule in policy["spec"].get("ingress", [])
            for port in rule["ports"]
        ]
        assert set(opened) == own


@each_scenario
def test_callers_from_outside_reach_no_probe_figure_or_scale(scenario):
    paths = [
        path["path"]
        for one in of_kind(rendered(scenario), "Ingress")
        for rule in one["spec"]["rules"]
        for path in rule["http"]["paths"]
    ] + [
        match["path"]["value"]
        for one in of_kind(rendered(scenario), "HTTPRoute")
        for rule in one["spec"]["rules"]
        for match in rule["matches"]
    ]
    assert set(paths) <= {"/mcp", "/v1", "/.well-known/oauth-protected-resource"}


def test_hub_tokens_go_to_workers_only_and_as_files():
    for pod in pods(rendered("l4-spot")):
        is_worker = container_of(pod)["name"] == "worker"
        assert ("HF_TOKEN_PATH" in environment_of(pod)) == is_worker
        assert "HF_TOKEN" not in environment_of(pod)


def test_proxies_of_an_inference_pool_reach_pickers_and_workers_and_nobody_else_does():
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}}}
    opened = {
        (policy["metadata"]["name"], port["port"])
        for policy in of_kind(rendered("inference-pool"), "NetworkPolicy")
        for rule in policy["spec"].get("ingress", [])
        if peer in rule["from"]
        for port in rule["ports"]
    }
    name = "rel-sie-mcp"
    assert opened == {
        (f"{name}-endpoint-picker", 9002),
        (f"{name}-endpoint-picker", 9003),
        (f"{name}-worker", 9000),
    }


def asks_the_api(pod, scenario):
    return scenario in ASK_THE_API and container_of(pod)["name"] in ("gateway", "endpoint-picker")


def test_the_documented_start_makes_the_secrets_that_pods_wait_for():
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    start = page.partition("## Start")[2].partition("\n## ")[0]
    (scenario,) = re.findall(r"^helm install .*/ci/([a-z0-9-]+)-values\.yaml$", start, re.M)
    made = set(re.findall(r"^kubectl .* create secret generic (\S+) ", start, re.M))
    waited_for = {
        volume["secret"]["secretName"]
        for pod in pods(rendered(scenario))
        for volume in pod["spec"].get("volumes", [])
        if "secret" in volume
    }
    assert made == waited_for
