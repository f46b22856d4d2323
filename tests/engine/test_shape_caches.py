"""What CPU kernels keep for past shapes is bounded before the first forward pass."""

import os

import pytest

from sie_mcp.engine.shape_caches import NUM_SHAPES, bound_shape_caches

VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def test_both_caches_are_bounded_but_for_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLES[0], raising=False)
    monkeypatch.setenv(VARIABLES[1], "7")
    bound_shape_caches()
    assert [os.environ[one] for one in VARIABLES] == [NUM_SHAPES, "7"]
    monkeypatch.delenv(VARIABLES[0])
