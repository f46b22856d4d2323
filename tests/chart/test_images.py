"""The files of images: what hadolint says, who runs in them, and that nothing private goes in."""

import re
import tomllib

import pytest

import sie_mcp
from tests.chart.rendering import ROOT, program, run

FILES = sorted((ROOT / "k8s" / "docker").glob("Dockerfile.*"))
OURS = [path for path in FILES if path.suffix in (".gateway", ".worker")]
ids = lambda path: path.suffix[1:]  # noqa: E731


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_hadolint_has_nothing_to_say(path):
    done = run(program("hadolint"), str(path))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", OURS, ids=ids)
def test_an_image_is_built_in_two_stages_and_runs_as_the_charts_user(path):
    lines = path.read_text().splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2
    last = "\n".join(lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :])
    assert "\nUSER 10001:10001\n" in last
    assert not re.search(r"pip install|apt-get|^COPY sie_mcp", last, re.M)


@pytest.mark.parametrize("path", OURS, ids=ids)
def test_a_base_is_one_version(path):
    (base,) = re.findall(r"^ARG BASE=(\S+)$", path.read_text(), re.M)
    assert re.search(r":3\.11\.\d+-slim-bookworm$", base)


def test_only_the_worker_installs_the_engine():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        path.suffix: set(re.search(r"\[([a-z,]+)\]", path.read_text())[1].split(","))
        for path in OURS
    }
    assert named == {
        ".gateway": {"otel", "picker", "pii", "queue", "redis"},
        ".worker": {"engine", "images", "otel", "queue"},
    }
    assert set.union(*named.values()) <= extras["optional-dependencies"].keys()


def test_only_what_is_named_reaches_a_build():
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    named = {line.removeprefix("!") for line in lines if line.startswith("!")}
    for path in OURS:
        for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", path.read_text(), re.M):
            assert set(copied.split()) <= named
    assert sie_mcp.__name__ in named
