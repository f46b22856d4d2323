"""Keep what the protocol's conformance suite says of our server: `python -m evals.conformance`."""

import asyncio
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import sie_mcp
from tests.conformance.fixtures import serving_scenarios
from tests.conformance.suite import REVISIONS, counted, find_suite, not_passed

RESULTS = Path(__file__).parent / "results" / "conformance.json"


async def measure() -> dict[str, Any]:
    """Run both revisions; return versions, counts and what did not plainly pass."""
    suite = find_suite()
    revisions = {}
    async with serving_scenarios() as url:
        for revision in REVISIONS:
            checks = await suite.run(url, revision)
            rest = not_passed(revision, checks)
            listed = {name: outcome for (_, name), outcome in sorted(rest.items())}
            revisions[revision] = {**counted(checks), "not_passed": listed}
    return {
        "command": "python -m evals.conformance",
        "sie_mcp": sie_mcp.__version__,
        "mcp": importlib.metadata.version("mcp"),
        "suite": suite.version,
        "node": suite.node_version,
        "revisions": revisions,
    }


def main() -> None:
    """Write the results."""
    found = asyncio.run(measure())
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    for revision, counts in found["revisions"].items():
        print(revision, counts["scenarios"], counts["checks"])


if __name__ == "__main__":
    main()
