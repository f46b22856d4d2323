"""Tests of kernels and dtypes on a CUDA device; skipped where there is none.

With SIE_GPU_RECORD=path the figures they compare are written there as JSON.
"""

import json
import os
from pathlib import Path

import pytest
import torch
import transformers

_FIGURES = []


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if "tests/gpu" in str(item.path):
            item.add_marker(skip)


@pytest.fixture
def record():
    """Keep what a test measured: family, task, dtype and figures."""

    def keep(family, task, dtype, **figures):
        plain = {name: round(float(value), 6) for name, value in figures.items()}
        _FIGURES.append({"family": family, "task": task, "dtype": dtype, **plain})

    return keep


def pytest_sessionfinish():
    path = os.environ.get("SIE_GPU_RECORD")
    if not path or not _FIGURES:
        return
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    content = {"card": torch.cuda.get_device_name(), **versions, "figures": _FIGURES}
    Path(path).write_text(json.dumps(content, indent=1) + "\n")
