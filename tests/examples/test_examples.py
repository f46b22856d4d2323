"""The example agents do their task over stdio, with a scripted model in place of a real one.

The frameworks have an environment of their own, made by `make examples` and `make test`; skipped
without.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.e2e.conftest import ROOT, environment
from tests.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.anyio

EXAMPLES = ROOT / "examples"
ENVIRONMENT = ROOT / ".examples"
FRAMEWORKS = [path.stem for path in sorted((EXAMPLES / "requirements").glob("*.txt"))]
LIMIT_S = 60.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the example's data."""
    for name in ("products.csv", "departments.txt"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_the_agent_classifies_the_file_and_reports_what_is_unsure(folder, framework):
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / ".installed").exists():
        pytest.skip(f"{framework} is not installed; `make examples` does that")
    worker = ScriptedWorker()
    async with worker.running() as worker_url:
        report = await drive(python, framework, folder, worker_url)
    assert report["count"] == 12
    assert sum(report["counts"].values()) == 12
    assert len(report["look_at"]) == 2
    with Path(report["file"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert Path(report["file"]) == folder / "classified.csv"
    assert len(rows) == 12
    departments = (folder / "departments.txt").read_text().splitlines()
    assert all(row["path"] in departments for row in rows)
    least = sorted(rows, key=lambda row: float(row["confidence"]))[:2]
    assert [line.split(":")[0] for line in report["look_at"]] == [
        f"row {row['index']}" for row in least
    ]


async def drive(python: Path, framework: str, folder: Path, worker_url: str) -> dict[str, Any]:
    """Run an example in its environment, against our server in this one; return its report."""
    own = environment(folder, worker_url=worker_url)
    named = {name: value for name, value in own.items() if name.startswith(("SIE_MCP_", "PYTHON"))}
    server = {
        "command": sys.executable,
        "args": ["-m", "sie_mcp", "stdio", "--tools", "taxonomy", "--allow", str(folder)],
        "env": named,
    }
    command = [python, "-m", f"tests.examples.drive_{framework}", json.dumps(server)]
    env = {"PATH": own["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    output = await anyio.to_thread.run_sync(run, command, env)
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def run(command: list[str | Path], env: dict[str, str]) -> str:
    """Return what a command wrote; end it, and all that it started, when it takes too long."""
    with subprocess.Popen(
        command,
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
            raise AssertionError(f"not done after {LIMIT_S:.0f} s: {errors[-4000:]}") from None
    assert process.returncode == 0, errors[-4000:]
    return output


def test_every_framework_has_an_example_and_a_driver():
    named = {path.stem.removeprefix("with_") for path in EXAMPLES.glob("with_*.py")}
    driven = {path.stem.removeprefix("drive_") for path in Path(__file__).parent.glob("drive_*.py")}
    assert named == driven == set(FRAMEWORKS)
    assert len(FRAMEWORKS) == 4


def test_the_page_on_agents_shows_the_examples_as_they_are():
    page = (ROOT / "docs" / "agents.md").read_text()
    blocks = re.findall(r"```python\n(.+?)\n```", page, re.DOTALL)
    sources = [(EXAMPLES / f"with_{name}.py").read_text() for name in FRAMEWORKS]
    assert len(blocks) == len(FRAMEWORKS)
    for source in sources:
        assert sum(block in source for block in blocks) == 1
