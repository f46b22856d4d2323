"""What a local server does not use, it does not load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["limits", "jwt", "redis", "opentelemetry.sdk", "torch"])
def test_a_local_server_loads_nothing_of_remote_callers(module):
    code = f"import sys, sie_mcp.gateway.stdio; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
