"""Rendered objects against Kubernetes' own schemas and the definitions of custom resources."""

import copy
import functools

import pytest

from k8s.tools.custom_resources import problems, read_definitions
from tests.chart.rendering import ROOT, SCENARIOS, of_kind, program, rendered, run, text

VERSIONS = ("1.30", "1.34", "1.37")


@functools.cache
def definitions():
    return read_definitions(sorted((ROOT / "k8s" / "crds").glob("*.yaml")))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_custom_resources_have_no_field_that_is_not_defined(scenario):
    assert problems(rendered(scenario), definitions()) == []


def test_a_typo_in_a_custom_resource_is_found():
    (scaled, *_) = copy.deepcopy(of_kind(rendered("keda"), "ScaledObject"))
    scaled["spec"]["minReplicaCountt"] = 1
    scaled["spec"]["fallback"]["behavior"] = "guess"
    found = "\n".join(problems([scaled], definitions()))
    assert "minReplicaCountt" in found
    assert "'guess' is not one of" in found


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_what_kubernetes_takes(version, tmp_path):
    validate = program("kubernetes-validate")
    for scenario in SCENARIOS:
        # Volumes of images came with 1.31.
        if scenario != "offline" or version != VERSIONS[0]:
            (tmp_path / f"{scenario}.yaml").write_text(text(scenario))
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    done = run(validate, "--strict", "-k", version, *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stdout + done.stderr


def test_a_typo_in_an_object_is_found(tmp_path):
    validate = program("kubernetes-validate")
    path = tmp_path / "typo.yaml"
    path.write_text(text("minimal").replace("periodSeconds:", "periodSecondss:"))
    done = run(validate, "--strict", "-k", VERSIONS[-1], str(path))
    assert done.returncode != 0
    assert "periodSecondss" in done.stdout + done.stderr
