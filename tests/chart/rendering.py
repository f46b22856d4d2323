"""The chart as Helm renders it; the programs that `make chart` fetches, and skips without them."""

import functools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sie_mcp.gateway.pool.plan import Plan, read_plan

ROOT = Path(__file__).parents[2]
CHART = ROOT / "k8s" / "helm" / "sie-mcp"
FETCHED = ROOT / ".k8s"
SCENARIOS = sorted(path.name.removesuffix("-values.yaml") for path in CHART.glob("ci/*.yaml"))
RELEASE, NAMESPACE = "rel", "ns"
WORKLOADS = ("Deployment", "Pod")
HELMS = ("helm4", "helm3")
# Scenarios whose gateways ask the Kubernetes API who is there.
ASK_THE_API = ("endpoint-slices", "inference-pool")

Document = dict[str, Any]


def program(name: str) -> str:
    """Return where a program is; skips the test where it is not."""
    places = [FETCHED / "bin" / name, FETCHED / "venv" / "bin" / name]
    found = next((str(one) for one in places if one.exists()), None) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here; `make chart` fetches it")
    return found


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=cwd)


def helm(name: str, verb: str, *options: str) -> subprocess.CompletedProcess[str]:
    where = [RELEASE] if verb == "template" else []
    return run(program(name), verb, *where, str(CHART), "-n", NAMESPACE, *options)


def values_of(scenario: str) -> tuple[str, str]:
    return "--values", str(CHART / "ci" / f"{scenario}-values.yaml")


@functools.cache
def text(scenario: str, name: str = "helm4") -> str:
    """Return what a scenario renders to."""
    done = helm(name, "template", *values_of(scenario))
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def rendered(scenario: str, name: str = "helm4") -> tuple[Document, ...]:
    """Return a scenario's objects. Nobody may change them."""
    return tuple(one for one in yaml.safe_load_all(text(scenario, name)) if one)


def of_kind(documents: tuple[Document, ...], *kinds: str) -> list[Document]:
    return [one for one in documents if one["kind"] in kinds]


def pod_of(document: Document) -> Document:
    """Return a workload's pod: its metadata and spec."""
    return document["spec"]["template"] if document["kind"] == "Deployment" else document


def pods(documents: tuple[Document, ...]) -> list[Document]:
    return [pod_of(one) for one in of_kind(documents, *WORKLOADS)]


def metrics_in(query: str) -> set[str]:
    """Return the names of series in a query: ours and those of kube-state-metrics."""
    return set(re.findall(r"\b(?:sie|kube)_[a-z0-9_]+", query))


def container_of(pod: Document) -> Document:
    (container,) = pod["spec"]["containers"]
    return container


def environment_of(pod: Document) -> dict[str, str | None]:
    return {one["name"]: one.get("value") for one in container_of(pod).get("env", [])}


def matches(selector: Document, labels: Document) -> bool:
    return selector["matchLabels"].items() <= labels.items()


def workers(scenario: str) -> list[Document]:
    return [
        one
        for one in of_kind(rendered(scenario), "Deployment")
        if one["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    ]


def plan_of(documents: tuple[Document, ...], tmp_path: Path) -> Plan:
    (text,) = [
        one["data"]["pools.toml"]
        for one in of_kind(documents, "ConfigMap")
        if "pools.toml" in one["data"]
    ]
    path = tmp_path / "pools.toml"
    path.write_text(text)
    return read_plan(path)
