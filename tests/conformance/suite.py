"""Runs the protocol's conformance suite, a Node program, and reads what it found.

`make conformance` installs it, with a Node that is new enough, in `.node`.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".node" / "node_modules"
PACKAGE = FOLDER / "@modelcontextprotocol" / "conformance"
LEAST_NODE = 22
LIMIT_S = 90.0
SCENARIO_LIMIT_MS = 15_000
REVISIONS = ("2025-11-25", "2026-07-28")
# As the table in docs/conformance.md says it; what passes is not in it.
OUTCOMES = {"WARNING": "warns", "SKIPPED": "skipped"}


class Missing(Exception):
    """The suite cannot run here; the message says why."""


@dataclass(frozen=True)
class Check:
    """One thing that a scenario looked at."""

    scenario: str
    name: str
    status: str
    message: str


@dataclass(frozen=True)
class Suite:
    """An installed suite."""

    node: str
    node_version: str
    version: str

    async def extensions(self) -> set[str]:
        """Return the scenarios that belong to no revision of the protocol."""
        listed = await self._run("list", "--server")
        return set(re.findall(r"- ([\w-]+) \[extension\]", listed))

    async def run(self, url: str, revision: str) -> list[Check]:
        """Run all scenarios of a revision against the server at a URL."""
        with tempfile.TemporaryDirectory() as folder:
            await self._run(
                "server", "--url", url, "--suite", "all", "--spec-version", revision,
                "--timeout", str(SCENARIO_LIMIT_MS), "--output-dir", folder,
            )  # fmt: skip
            return [check for one in sorted(Path(folder).iterdir()) for check in _checks(one)]

    async def _run(self, *arguments: str) -> str:
        """Return what the suite wrote; it ends with 1 when a scenario failed."""
        process = await asyncio.create_subprocess_exec(
            self.node, str(PACKAGE / "dist" / "index.js"), *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(LIMIT_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        text = output.decode()
        assert process.returncode in (0, 1), text
        return text


def find_suite() -> Suite:
    """Return the suite that is installed here.

    Raises:
        Missing: it is not, or Node is missing or too old.
    """
    if not PACKAGE.is_dir():
        raise Missing("the conformance suite is not installed; `make conformance` does that")
    path = os.pathsep.join([str(FOLDER / ".bin"), os.environ.get("PATH", "")])
    node = shutil.which("node", path=path)
    if node is None:
        raise Missing(f"no Node here; the conformance suite needs {LEAST_NODE}")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", version)[0]) < LEAST_NODE:
        raise Missing(f"Node is {version.strip()}; the conformance suite needs {LEAST_NODE}")
    package = json.loads((PACKAGE / "package.json").read_text())
    return Suite(node, version.strip(), package["version"])


def not_passed(revision: str, checks: list[Check]) -> dict[tuple[str, str], str]:
    """Return what is not plainly passed: scenarios, and checks of them with a warning or skipped.

    Keyed by revision and name, as `scenario` or `scenario:check`.
    """
    outcomes = scenario_outcomes(checks)
    found = {(revision, name): how for name, how in outcomes.items() if how != "passes"}
    for check in checks:
        if how := OUTCOMES.get(check.status):
            found[revision, f"{check.scenario}:{check.name}"] = how
    return found


def scenario_outcomes(checks: list[Check]) -> dict[str, str]:
    """Say of each scenario whether it passes, fails, or found nothing that it could check."""
    statuses: dict[str, set[str]] = {}
    for check in checks:
        statuses.setdefault(check.scenario, set()).add(check.status)
    return {
        scenario: "fails" if "FAILURE" in seen else "passes" if "SUCCESS" in seen else "skipped"
        for scenario, seen in statuses.items()
    }


def counted(checks: list[Check]) -> dict[str, Mapping[str, int]]:
    """Count scenarios and checks by how they went."""
    return {
        "scenarios": Counter(sorted(scenario_outcomes(checks).values())),
        "checks": Counter(sorted(check.status.lower() for check in checks)),
    }


def _checks(folder: Path) -> list[Check]:
    """Read the results of one scenario; its folder is named for it and the time."""
    named = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\w-]+Z?", folder.name)
    assert named, folder.name
    found: list[dict[str, Any]] = json.loads((folder / "checks.json").read_text())
    return [
        Check(named[1], one["id"], one["status"], one.get("errorMessage") or "") for one in found
    ]
