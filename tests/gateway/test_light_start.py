"""What a program does not use, it does not load."""

import subprocess
import sys
from functools import cache

import pytest

GATEWAY, WORKER = "sie_mcp.gateway.stdio", "sie_mcp.engine.main"


@cache
def loaded(program: str) -> set[str]:
    """Return the modules that a program has read before it serves."""
    command = [sys.executable, "-c", f"import sys, {program}; print(*sys.modules)"]
    found = subprocess.run(command, timeout=60, check=True, capture_output=True, text=True)
    return set(found.stdout.split())


@pytest.mark.parametrize("module", ["limits", "jwt", "redis", "opentelemetry.sdk", "torch"])
def test_a_local_server_loads_nothing_of_remote_callers(module):
    assert GATEWAY in loaded(GATEWAY)
    assert module not in loaded(GATEWAY)


@pytest.mark.parametrize("module", ["transformers", "torch._dynamo", "sympy", "limits", "jwt"])
def test_a_worker_loads_nothing_that_only_some_models_need(module):
    """Each takes seconds, and a start waits for them."""
    assert "torch" in loaded(WORKER)
    assert module not in loaded(WORKER)
