"""Alerts, dashboards, queries that size pools: they parse, they fire, they name real series."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from sie_mcp.metrics import REGISTRY
from tests.chart.rendering import (
    CHART,
    ROOT,
    SCENARIOS,
    metrics_in,
    of_kind,
    program,
    rendered,
    run,
)
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

RULES = CHART / "alerts" / "rules.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
# Of kube-state-metrics: nobody of ours knows what the autoscaler may do.
FOREIGN = {
    "kube_horizontalpodautoscaler_status_current_replicas",
    "kube_horizontalpodautoscaler_spec_max_replicas",
}
# What Prometheus adds by the monitors of the chart.
ADDED = {"namespace", "service", "pod", "worker_pool", "le", "horizontalpodautoscaler"}


def alerts() -> list[dict]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def dashboard_queries(path: Path) -> list[str]:
    board = json.loads(path.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def series() -> dict[str, set[str]]:
    """Return every series that a program has, with its labels; a Counter's are named `_total`."""
    found: dict[str, set[str]] = {}
    for collector in REGISTRY._collector_to_names:
        for family in collector.describe():
            labels = set(collector._labelnames)
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
            for suffix in suffixes.get(family.type, [""]):
                found[family.name + suffix] = labels
    return found


def all_queries() -> dict[str, list[str]]:
    return {
        "rules": [one["expr"] for one in alerts()],
        **{path.name: dashboard_queries(path) for path in DASHBOARDS},
    }


def scaled_queries() -> list[str]:
    return [
        trigger["metadata"]["query"]
        for scenario in SCENARIOS
        for one in of_kind(rendered(scenario), "ScaledObject")
        for trigger in one["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]


def check(query: str) -> None:
    known = series()
    names = metrics_in(query)
    assert names, query
    assert names - FOREIGN <= known.keys(), query
    labels = set(re.findall(r"(\w+) *(?:=~|!=|!~|=)\s*\"", query))
    for group in re.findall(r"\b(?:by|on) *\(([^)]*)\)", query):
        labels |= {one.strip() for one in group.split(",")}
    has = ADDED.union(*(known.get(name, set()) for name in names))
    assert labels <= has, query


@pytest.mark.parametrize("source", ["rules", *(path.name for path in DASHBOARDS)])
def test_a_series_and_a_label_that_is_asked_for_is_one_that_the_programs_have(source):
    for query in all_queries()[source]:
        check(query)


def test_every_series_is_on_the_page_of_a_running_gateway_and_worker(tmp_path):
    config = Config(worker_url="http://127.0.0.1:9", cache_dir=tmp_path)
    apps = [build_app(config, files_allowed=False), make_worker(config, ToyLoader()).app]
    queries = [*scaled_queries(), *(one for found in all_queries().values() for one in found)]
    wanted = set.union(*map(metrics_in, queries)) - FOREIGN
    for app in apps:
        page = TestClient(app, base_url="http://10.0.0.1").get("/metrics").text
        typed = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page, re.M))
        for name in wanted:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in typed or typed.get(base) == "histogram", name


def test_the_query_that_sizes_a_pool_asks_for_what_gateways_have():
    for query in scaled_queries():
        assert metrics_in(query) == {"sie_pool_demand"}
        check(query)


def test_a_query_with_a_series_that_is_not_there_is_found():
    with pytest.raises(AssertionError):
        check("sum(rate(sie_request_total[5m]))")
    with pytest.raises(AssertionError):
        check("sum by (model) (sie_pool_demand)")


def test_an_alert_says_what_to_do():
    runbooks = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    headings = re.findall(r"^### (\w+)$", runbooks, re.M)
    assert headings == [one["alert"] for one in alerts()]
    for one in alerts():
        assert one["annotations"]["runbook"] == f"docs/runbooks.md#{one['alert'].lower()}"
        assert one["labels"]["severity"] in ("critical", "warning")


def test_rules_are_rendered_as_they_are_in_their_file():
    (rendered_rules,) = of_kind(rendered("l4-spot"), "PrometheusRule")
    assert rendered_rules["spec"] == yaml.safe_load(RULES.read_text())


def test_every_alert_has_a_test_in_which_it_fires():
    tests = yaml.safe_load((Path(__file__).parent / "rules_test.yaml").read_text())["tests"]
    fired = {
        one["alertname"] for test in tests for one in test["alert_rule_test"] if "exp_alerts" in one
    }
    assert fired == {one["alert"] for one in alerts()}


def test_alerts_fire_where_they_must_and_nowhere_else(tmp_path):
    promtool = program("promtool")
    shutil.copy(RULES, tmp_path / "rules.yaml")
    shutil.copy(Path(__file__).parent / "rules_test.yaml", tmp_path)
    done = run(promtool, "test", "rules", "rules_test.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_query_that_sizes_a_pool_adds_up_gateways_and_is_empty_without_them(tmp_path):
    """Two gateways add up, a peak counts for 30 s, other pools and releases do not count."""
    promtool = program("promtool")
    (query,) = {one for one in scaled_queries() if 'pool="l4-spot"' in one and "rel-" in one}
    labels = 'namespace="ns",service="rel-sie-mcp-gateway",pool="l4-spot"'
    steps = {"interval": "5s"}
    demand = [
        _series(f'sie_pool_demand{{{labels},pod="g0"}}', "0x11 9 0x60"),
        _series(f'sie_pool_demand{{{labels},pod="g1"}}', "2x72"),
        _series(f'sie_pool_demand{{{labels.replace("l4-spot", "l4")},pod="g0"}}', "50x72"),
        _series(f'sie_pool_demand{{{labels.replace("ns", "other")},pod="g0"}}', "50x72"),
    ]
    tests = [
        {
            **steps,
            "input_series": demand,
            "promql_expr_test": [
                _expect(query, "50s", 2),
                _expect(query, "60s", 11),
                _expect(query, "85s", 11),
                _expect(query, "95s", 2),
            ],
        },
        {
            **steps,
            "input_series": demand[2:],
            "promql_expr_test": [{"expr": query, "eval_time": "60s", "exp_samples": []}],
        },
    ]
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"evaluation_interval": "5s", "tests": tests}))
    done = run(promtool, "test", "rules", "t.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_queries_of_a_dashboard_parse(path, tmp_path):
    promtool = program("promtool")
    queries = [
        re.sub(r"\$__rate_interval", "5m", query).replace("$namespace", "ns")
        for query in dashboard_queries(path)
    ]
    rules = [{"record": f"q{place}", "expr": query} for place, query in enumerate(queries)]
    groups = {"groups": [{"name": "g", "rules": rules}]}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(groups))
    done = run(promtool, "check", "rules", "r.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def _series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


def _expect(query: str, at: str, value: float) -> dict:
    return {
        "expr": query,
        "eval_time": at,
        "exp_samples": [{"labels": "{}", "value": value}],
    }
