"""Scenarios render with Helm 3 and Helm 4, to the same; values that cannot work are refused."""

import json
import re

import pytest
import yaml

import sie_mcp
from k8s.tools import chart_docs, dashboards
from sie_mcp.config import Config
from tests.chart.rendering import CHART, HELMS, SCENARIOS, helm, rendered, values_of


@pytest.mark.parametrize("path", sorted(CHART.glob("templates/**/*.*")), ids=lambda path: path.name)
def test_every_block_that_a_template_opens_it_ends(path):
    """Without Helm too: a merge that loses one `end` breaks the whole chart."""
    marks = re.findall(r"\{\{-?\s*(if|range|with|define|block|end)\b", path.read_text())
    assert marks.count("end") * 2 == len(marks)


@pytest.mark.parametrize("name", HELMS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_has_nothing_to_complain_about(scenario: str, name: str) -> None:
    done = helm(name, "lint", "--strict", *values_of(scenario))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_helms_render_the_same(scenario: str) -> None:
    assert rendered(scenario, "helm3") == rendered(scenario, "helm4")


REFUSED = {
    "typo=1": "typo",
    "gateway.replicas=3": "replicas",
    "gateway.minReplicas=1": "minReplicas",
    "gateway.maxReplicas=2,gateway.minReplicas=3": "is more than maxReplicas",
    "gateway.settings.max_reslt_tokens=1": "max_reslt_tokens",
    "gateway.settings.port=9": "port",
    "gateway.holdSeconds=400": "gracefulSeconds 300 is less than holdSeconds 400",
    "pools.cpu.minReplica=1": "minReplica",
    "pools.cpu.minReplicas=9": "minReplicas 9 is more than maxReplicas 4",
    "pools.cpu.profile=b200": "no profile .*b200.*; there are: a100, cpu, h100, l4",
    "pools.cpu.cooldownSeconds=60": "would sleep before it woke",
    "pools.cpu.graceSeconds=20": "leaves no time",
    "pools.cpu.cache.type=nfs": "cache",
    "pools.cpu.cache.type=hostPath": "hostPath needs a path",
    "pools.cpu.settings.preload=x": "preload",
    "pools.Upper.profile=cpu": "Upper",
    "defaultPool=x": "defaultPool: no pool .*x.*; there are: cpu",
    "catalogue.pools.m={x}": "no pool .*x",
    "auth.mode=oauth": "needs auth.issuer",
    "auth.keys=x,auth.existingSecret=y": "not both",
    "monitoring.interval=60s": "interval",
    "ingress.enabled=true": "at least one host",
    "httpRoute.enabled=true": "at least one Gateway",
    "keda.mode=yes": "keda",
    "gateway.discovery=guess": "discovery",
    "gateway.embeddingCacheBytes=-1": "embeddingCacheBytes",
    "gateway.settings.embedding_cache_bytes=1": "embedding_cache_bytes",
    "endpointPicker.mode=on": "name where the proxies run",
    "endpointPicker.mode=on,networkPolicy.enabled=false,endpointPicker.holdSeconds=90": (
        "gracefulSeconds 60 is less than holdSeconds 90"
    ),
}


@pytest.mark.parametrize("name", HELMS)
@pytest.mark.parametrize(("setting", "reason"), REFUSED.items(), ids=REFUSED)
def test_values_that_cannot_work_are_refused_by_name(setting, reason, name) -> None:
    done = helm(name, "template", "--set", setting)
    assert done.returncode != 0
    assert re.search(reason, done.stderr), done.stderr


def test_what_a_cluster_has_decides_what_is_rendered() -> None:
    plain = yaml.safe_load_all(helm("helm4", "template").stdout)
    kinds = {one["kind"] for one in plain if one}
    assert not kinds & {"ScaledObject", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
    apis = ["--api-versions", "keda.sh/v1alpha1", "--api-versions", "monitoring.coreos.com/v1"]
    full = yaml.safe_load_all(helm("helm4", "template", *apis).stdout)
    kinds = {one["kind"] for one in full if one}
    assert kinds >= {"ScaledObject", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert "InferencePool" not in kinds


def test_the_chart_brings_no_other_chart() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert "dependencies" not in chart
    assert not (CHART / "charts").exists()
    assert chart["appVersion"] == chart["version"] == sie_mcp.__version__


def test_no_object_of_the_schema_lets_unknown_values_through() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_ones = [path for path, one in _objects(schema, "") if "additionalProperties" not in one]
    assert sorted(open_ones) == [
        # What another chart shares, and what is Kubernetes' own and checked there.
        "/properties/endpointPicker/properties/proxies/items",
        "/properties/global",
        "/properties/httpRoute/properties/parentRefs/items",
        "/properties/networkPolicy/properties/callers/items",
        "/properties/networkPolicy/properties/gatewayEgress/items",
    ]


def test_settings_of_the_schema_are_settings_of_the_programs() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["definitions"]
    for name in ("gatewaySettings", "pickerSettings", "workerSettings"):
        assert set(schema[name]["propertyNames"]["enum"]) <= Config.model_fields.keys()


def test_every_value_is_described_in_the_readme() -> None:
    assert chart_docs.README.read_text("utf-8") == chart_docs.readme()
    described = {path for path, _ in chart_docs.described(chart_docs.VALUES.read_text("utf-8"))}
    values = yaml.safe_load(chart_docs.VALUES.read_text("utf-8"))
    assert [path for path in _leaves(values) if not _has_prefix(path, described)] == []


def test_dashboards_are_as_their_table_says() -> None:
    for name in dashboards.DASHBOARDS:
        path = dashboards.FOLDER / f"{name}.json"
        assert path.read_text("utf-8") == dashboards.text(name)
    assert len(list(dashboards.FOLDER.iterdir())) == len(dashboards.DASHBOARDS)


def _objects(schema, path):
    if schema.get("type") == "object":
        yield path, schema
    for word in ("properties", "definitions"):
        for name, one in schema.get(word, {}).items():
            yield from _objects(one, f"{path}/{word}/{name}")
    if isinstance(schema.get("items"), dict):
        yield from _objects(schema["items"], f"{path}/items")


def _leaves(values, path=()):
    for name, one in values.items():
        if isinstance(one, dict) and one:
            yield from _leaves(one, (*path, name))
        else:
            yield (*path, name)


def _has_prefix(path, described) -> bool:
    """Pools are entries of one map; elsewhere a group's comment does not speak for its values."""
    shortest = 2 if len(path) > 1 and path[0] != "pools" else 1
    return any(path[:length] in described for length in range(shortest, len(path) + 1))
