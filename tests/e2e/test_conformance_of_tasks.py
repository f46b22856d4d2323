"""The protocol's own conformance suite on the Tasks extension of our server.

Needs Node 22 or newer and, for the first run, the npm registry; skipped, with the reason, where
either is missing. What asks for input in the middle of a task is left out: our tools ask nothing.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.ports import free_port
from tests.e2e.conftest import environment

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
LEAST_NODE = 22
LIMIT_S = 90.0
SCENARIOS = {
    "tasks-lifecycle": 9,
    "tasks-capability-negotiation": 5,
    "tasks-wire-fields": 4,
    "tasks-request-state-removal": 3,
    "tasks-dispatch-and-envelope": 9,
    "tasks-request-headers": 5,
}


@pytest.fixture(scope="module")
def npx() -> str:
    """The path of npx, where Node is new enough and the suite can be had."""
    found, node = shutil.which("npx"), shutil.which("node")
    if found is None or node is None:
        pytest.skip(f"no Node here; the suite needs {LEAST_NODE} or newer")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", version)[0]) < LEAST_NODE:
        pytest.skip(f"Node is {version.strip()}; the suite needs {LEAST_NODE} or newer")
    command = [found, "-y", PACKAGE, "--version"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if tried.returncode:
        pytest.skip(f"the suite cannot be installed: {tried.stderr.strip()[-200:]}")
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("conformance")
    port = free_port()
    command = [sys.executable, "-m", "tests.e2e.conformance_server", str(port)]
    child = subprocess.Popen(
        command, env=environment(folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        assert child.stderr is not None
        for line in child.stderr:
            if b"running on" in line:
                break
        yield f"http://localhost:{port}/mcp"
    finally:
        child.terminate()
        child.communicate(timeout=20)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_check_of_a_scenario_passes(npx: str, url: str, scenario: str) -> None:
    run = subprocess.run(
        [npx, "-y", PACKAGE, "server", "--url", url, "--scenario", scenario],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    passed = SCENARIOS[scenario]
    assert f"Passed: {passed}/{passed}, 0 failed" in run.stdout, run.stdout[-3_000:] + run.stderr
