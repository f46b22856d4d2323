"""Terraform's files: their form, the plan's own tests, schemas of providers, and checkov.

Nothing here asks a cloud, and no provider is downloaded.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from k8s.tools.terraform_schema import Schemas, blocks, problems
from tests.chart.rendering import CHART, ROOT, helm, of_kind, program, run

FOLDER = ROOT / "k8s" / "terraform"
ROOTS = ("gke", "eks")
MODULES = ROOT / ".k8s" / "node" / "node_modules"
FILES = sorted(path for root in ROOTS for path in (FOLDER / root).glob("*.tf"))

# Each with its reason. What is not here fails.
EXPLAINED = {
    "CKV_AWS_39": "the API is public for `api_cidrs` only; a private one needs a way in of yours",
    "CKV_AWS_38": "`api_cidrs` refuses 0.0.0.0/0; checkov cannot read a variable",
    "CKV_AWS_356": "descriptions have no narrower resource; what changes is bound by a tag",
    "CKV_AWS_18": "the bucket holds copies of models: a log of reads is yours to add",
    "CKV_AWS_144": "the bucket holds copies of models: it can be filled again",
    "CKV2_AWS_62": "nobody waits for a change of the bucket",
    "CKV2_AWS_11": "flow logs cost by traffic; add them where you keep logs",
    "CKV2_AWS_64": "the key's policy is the account's default: IAM decides",
    "CKV_GCP_62": "the bucket holds copies of models: a log of reads is yours to add",
    "CKV_GCP_12": "the data plane enforces policies (ADVANCED_DATAPATH), not the older addon",
    "CKV_GCP_65": "groups of Google are an organisation's own",
    "CKV_GCP_68": "drivers of GPUs are not signed; nodes without GPUs have secure boot",
    "CKV2_GCP_18": "GKE makes the rules that nodes need, and the network has no others",
}


def terraform(*command: str, cwd: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run Terraform with settings of nobody."""
    binary = shutil.which("terraform")
    if binary is None:
        pytest.skip("terraform is not here")
    settings = tmp_path / "settings"
    settings.touch()
    environment = {
        "TF_CLI_CONFIG_FILE": str(settings),
        "CHECKPOINT_DISABLE": "1",
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    return subprocess.run(
        [binary, *command], capture_output=True, text=True, timeout=100, cwd=cwd, env=environment
    )


@pytest.fixture
def plan_folder(tmp_path) -> Path:
    """A copy of the provider-less module, so that nothing is left in the project."""
    return Path(shutil.copytree(FOLDER / "modules" / "plan", tmp_path / "plan"))


def test_files_have_the_form_that_terraform_gives_them(tmp_path):
    done = terraform("fmt", "-check", "-diff", "-recursive", cwd=FOLDER, tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plan_holds_what_its_own_tests_say(plan_folder, tmp_path):
    for command in (["init", "-backend=false"], ["validate"], ["test"]):
        done = terraform(*command, "-no-color", cwd=plan_folder, tmp_path=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    passed, failed = re.findall(r"(\d+) (?:passed|failed)", done.stdout)
    assert int(passed) >= 14
    assert failed == "0"


@pytest.mark.parametrize("cloud", ROOTS)
def test_the_chart_takes_what_the_plan_tells_it(cloud, plan_folder, tmp_path):
    pools = {
        "cpu": {"profile": "cpu", "min_nodes": 1},
        "l4-spot": {"profile": "l4", "spot": True, "max_nodes": 10, "preload": ["BAAI/bge-m3"]},
        "a100": {"profile": "a100"},
    }
    given = {"cloud": cloud, "pools": pools, "models": {"BAAI/bge-m3": ["l4-spot", "cpu"]}}
    (plan_folder / "given.auto.tfvars.json").write_text(json.dumps(given))
    done = terraform("apply", "-auto-approve", cwd=plan_folder, tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(terraform("output", "-json", cwd=plan_folder, tmp_path=tmp_path).stdout)
    values = tmp_path / "values.yaml"
    values.write_text(told["chart_values"]["value"])
    groups = told["node_groups"]["value"]
    rendered = helm("helm4", "template", "--values", str(values))
    assert rendered.returncode == 0, rendered.stderr
    documents = tuple(one for one in yaml.safe_load_all(rendered.stdout) if one)
    for one in of_kind(documents, "Deployment"):
        pool = one["metadata"]["labels"].get("sie-mcp/pool")
        if pool is not None:
            _fits(one["spec"]["template"]["spec"], groups[pool], cloud)
    (config,) = [one for one in of_kind(documents, "ConfigMap") if "pools.toml" in one["data"]]
    assert all(f"[pools.{name}]" in config["data"]["pools.toml"] for name in pools)


def _fits(pod, group, cloud: str) -> None:
    """A pod's nodes are those of its group: labels that it asks for, taints that it bears."""
    labels = dict(group["labels"])
    # What clouds set by themselves.
    if group["spot"]:
        labels |= {"cloud.google.com/gke-spot": "true", "eks.amazonaws.com/capacityType": "SPOT"}
    taints = {one["key"] for one in group["taints"]}
    if cloud == "gke" and group["gpus"]:
        labels["cloud.google.com/gke-accelerator"] = group["accelerator"]
        taints.add("nvidia.com/gpu")
    assert pod["nodeSelector"].items() <= labels.items()
    assert taints <= {one["key"] for one in pod.get("tolerations", [])}
    wanted = pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0)
    assert wanted == min(group["gpus"], 1)


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    if not MODULES.is_dir():
        pytest.skip("typings of providers are not here; `make terraform` fetches them")
    return Schemas(MODULES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_resource_and_argument_is_one_that_its_provider_has(path, schemas):
    assert problems(path, schemas) == []


def test_the_files_have_the_resources_that_they_should(schemas):
    for root, cluster in (("gke", "google_container_cluster"), ("eks", "aws_eks_cluster")):
        names = [one[1] for path in (FOLDER / root).glob("*.tf") for one in blocks(path)]
        assert cluster in names
        assert names.count("helm_release") >= 3


BROKEN = """
resource "aws_eks_node_group" "x" {
  cluster_name = "c"
  subnet_ids = []
  capacity_typ = "SPOT"
  scaling_config = { min_size = 1 }
  dynamic "taint" {
    for_each = []
    content {
      key = "a"
    }
  }
  update_config {
    max = 1
  }
}
resource "aws_eks_nodegroup" "y" {}
data "aws_iam_policy_document" "z" {
  statement {
    action = []
  }
}
"""


def test_mistakes_are_found_by_name_and_place(tmp_path, schemas):
    (tmp_path / "broken.tf").write_text(BROKEN)
    assert sorted(problems(tmp_path / "broken.tf", schemas)) == [
        "broken.tf: aws_eks_node_group.x.taint: effect is missing",
        "broken.tf: aws_eks_node_group.x.update_config: there is no max",
        "broken.tf: aws_eks_node_group.x: node_role_arn is missing",
        "broken.tf: aws_eks_node_group.x: scaling_config is a block",
        "broken.tf: aws_eks_node_group.x: there is no capacity_typ",
        "broken.tf: aws_eks_nodegroup.y: no resource of that name",
        "broken.tf: aws_iam_policy_document.z.statement: there is no action",
    ]


@pytest.mark.parametrize(
    ("root", "name"), [("eks", "aws_eks_cluster"), ("gke", "google_container_cluster")]
)
def test_versions_are_pinned_to_those_that_were_checked(root, name, schemas):
    text = (FOLDER / root / "versions.tf").read_text()
    pinned = re.findall(r'version = "([\d.]+)"', text)
    assert pinned == [
        schemas.of("resource", name).version,
        schemas.of("resource", "helm_release").version,
    ]
    charts = (FOLDER / root / "charts.tf").read_text()
    outside = charts.count("repository ")
    assert len(re.findall(r"version +=  *var\.chart_versions", charts)) == outside >= 2


def test_every_variable_and_output_says_what_it_is():
    for path in FOLDER.rglob("*.tf"):
        for block in re.split(r"^(?=variable|output)", path.read_text(), flags=re.M):
            if block.startswith(("variable", "output")):
                assert "description" in block.split("\n}")[0], f"{path.name}: {block[:40]}"


def test_accounts_are_those_of_the_chart():
    """What pods are to the cloud is found by these names."""
    done = helm("helm4", "template")
    accounts = {
        one["metadata"]["name"].replace("rel-", "sie-", 1)
        for one in of_kind(tuple(x for x in yaml.safe_load_all(done.stdout) if x), "ServiceAccount")
    }
    for text in (
        (FOLDER / "gke" / "bucket.tf").read_text(),
        (FOLDER / "eks" / "identities.tf").read_text(),
    ):
        named = set(re.findall(r"sie-sie-mcp-[a-z]+", text))
        assert named == {"sie-sie-mcp-worker", "sie-sie-mcp-gateway"} <= accounts


def test_products_are_those_of_the_charts_profiles():
    profiles = yaml.safe_load((CHART / "values.yaml").read_text())["profiles"]
    text = (FOLDER / "modules" / "plan" / "main.tf").read_text()
    for name, profile in profiles.items():
        if "gpu" in profile:
            assert f'{name} = "{profile["gpu"]["product"]}"' in re.sub(" +", " ", text)
            assert f'{name} = "{profile["gpu"]["accelerator"]}"' in re.sub(" +", " ", text)


def test_checkov_finds_nothing_that_is_not_explained():
    options = ["--framework", "terraform", "--skip-download", "--compact", "-o", "json"]
    done = run(program("checkov"), "-d", str(FOLDER), *options)
    found = json.loads(done.stdout)
    assert found["summary"]["passed"] > 150
    assert found["summary"]["parsing_errors"] == 0
    failed = {f"{one['check_id']} {one['resource']}" for one in found["results"]["failed_checks"]}
    assert [one for one in failed if one.split()[0] not in EXPLAINED] == []
    assert EXPLAINED.keys() == {one.split()[0] for one in failed}
