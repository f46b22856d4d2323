"""Kernels through Triton's interpreter against their twins; skipped where it is not installed."""

import importlib.util
import os
import subprocess
import sys

import pytest

# The interpreter has no floats of eight bits.
NAMES = ["attend", "embeddings", "gates", "maxsim", "norms", "peaks", "pools", "probes", "turns"]
COMPILED = [*NAMES, "rounds"]
# Triton decides when it is imported whether it interprets: a process of its own.
SCRIPT = """
import importlib, torch
for name in {names}:
    module = importlib.import_module("sie_mcp.adapters.layers.kernels." + name)
    difference = module.check(torch.device("cpu"), torch.float16)
    assert difference <= module.TOLERANCE, (name, difference)
    print(name, difference)
"""


pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


def interpreted(*arguments, interprets="1"):
    """Run Python with an interpreting Triton; return what it prints."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "TRITON_INTERPRET": interprets},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def test_kernels_give_what_torch_gives_in_the_interpreter():
    assert len(interpreted("-c", SCRIPT.format(names=NAMES)).splitlines()) == len(NAMES)


def test_models_give_with_kernels_and_in_recorded_places_what_they_give_plainly(tmp_path):
    interpreted("-m", "tests.adapters.interpreted", str(tmp_path), "roberta", "gte", "qwen3")


def test_towers_for_images_give_with_kernels_what_they_give_plainly(tmp_path):
    pairs = ("clip", "siglip", "siglip2", "siglip2, few positions")
    interpreted("-m", "tests.adapters.interpreted_images", str(tmp_path), *pairs)


def test_kernels_compile_for_a_device_that_is_not_here():
    printed = interpreted("-m", "tests.adapters.compiled", *COMPILED, interprets="0")
    assert [line.split()[0] for line in printed.splitlines()] == COMPILED


def test_rounding_to_eight_bits_gives_in_the_interpreter_what_it_gives_plainly(tmp_path):
    interpreted("-m", "tests.adapters.interpreted_float8", str(tmp_path), "bert", "modernbert")
