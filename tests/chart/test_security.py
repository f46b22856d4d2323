"""Checkov's findings in what the chart renders: none that is not explained here."""

import json

import pytest

from tests.chart.rendering import program, run, text

# Each with its reason. What is not here fails.
EXPLAINED = {
    "CKV_K8S_43": "images by digest: `digest` of each image takes one; a chart cannot know it",
    "CKV_K8S_15": "pull policy: tags are versions; Always makes a registry part of each wake-up",
    "CKV_K8S_11": "CPU limits: they throttle while CPUs are idle; requests share them fairly",
}
# A pod that runs for a second, as a caller like others.
OF_THE_TEST = {
    "CKV_K8S_8": "liveness of a pod that ends by itself",
    "CKV_K8S_9": "readiness of a pod that nobody calls",
    "CKV2_K8S_6": "no policy is about callers",
}
# These switch off what is found.
ON_PURPOSE = {"cpu-dev": {"CKV2_K8S_6": "a developer's cluster: networkPolicy.enabled is false"}}


@pytest.mark.parametrize(
    "scenario", ["l4-spot", "multi-pool", "ingress", "cpu-dev", "inference-pool"]
)
def test_checkov_finds_nothing_that_is_not_explained(scenario, tmp_path):
    checkov = program("checkov")
    path = tmp_path / "out.yaml"
    path.write_text(text(scenario))
    options = ["--framework", "kubernetes", "--skip-download", "--compact", "-o", "json"]
    done = run(checkov, "-f", str(path), *options)
    found = json.loads(done.stdout)
    assert found["summary"]["passed"] > 100
    assert found["summary"]["parsing_errors"] == 0
    open_ones = [
        f"{one['check_id']} {one['resource']}: {one['check_name']}"
        for one in found["results"]["failed_checks"]
        if one["check_id"] not in _explained(scenario, one["resource"])
    ]
    assert open_ones == []


def _explained(scenario: str, resource: str) -> set[str]:
    of_pod = OF_THE_TEST if resource.startswith("Pod.") else {}
    return {*EXPLAINED, *of_pod, *ON_PURPOSE.get(scenario, {})}
