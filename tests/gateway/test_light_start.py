"""What a local server does not use, it does not load."""

import subprocess
import sys

import pytest

LISTED = "import sys, sie_mcp.gateway.stdio; print(*sys.modules)"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a local server."""
    command = [sys.executable, "-c", LISTED]
    found = subprocess.run(command, timeout=60, check=True, capture_output=True, text=True)
    return set(found.stdout.split())


@pytest.mark.parametrize("module", ["limits", "jwt", "redis", "opentelemetry.sdk", "torch"])
def test_a_local_server_loads_nothing_of_remote_callers(loaded, module):
    assert "sie_mcp.gateway.stdio" in loaded
    assert module not in loaded
