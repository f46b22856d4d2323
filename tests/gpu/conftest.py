"""Tests of kernels and dtypes on a CUDA device; skipped where there is none."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if "tests/gpu" in str(item.path):
            item.add_marker(skip)
