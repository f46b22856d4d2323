"""Positions between the rows of a table: torch's own interpolation, and all images at once."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.image_patches import ImagePatches
from sie_mcp.adapters.layers.grid_positions import grid_positions
from sie_mcp.adapters.packing import pack

SHAPES = [(16, 16), (1, 1), (7, 36), (36, 7), (1, 200), (16, 15), (3, 5), (16, 16), (64, 2)]
WIDTH = 24


def batch_of(shapes):
    images = [ImagePatches(np.zeros((h * w, 12), np.uint8), (h, w)) for h, w in shapes]
    sequences = [Sequence(np.zeros(len(one.values), np.int64), image=one) for one in images]
    return pack(sequences, torch.device("cpu"))


def table_of(side, dtype=torch.float32):
    torch.manual_seed(side)
    return torch.randn(side * side, WIDTH).to(dtype)


def interpolated(table, side, shape):
    """Return what the reference does, in float32."""
    wide = table.float().view(1, side, side, WIDTH).permute(0, 3, 1, 2)
    options = {"mode": "bilinear", "align_corners": False, "antialias": True}
    return functional.interpolate(wide, shape, **options).flatten(2)[0].T


@pytest.mark.parametrize("side", [3, 16])
def test_positions_are_those_that_torch_interpolates(side):
    table = table_of(side)
    found = grid_positions(table, batch_of(SHAPES))
    expected = torch.cat([interpolated(table, side, shape) for shape in SHAPES])
    assert (found - expected).abs().max() <= 2e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_in_half_precision_only_the_result_is_rounded(dtype):
    table = table_of(16, dtype)
    found = grid_positions(table, batch_of(SHAPES))
    expected = torch.cat([interpolated(table, 16, shape) for shape in SHAPES])
    assert found.dtype == dtype
    # Half of the last digit, and a little for what lies just beside the middle of two.
    half = torch.finfo(dtype).eps / 2
    assert ((found.float() - expected).abs() <= 1.05 * half * expected.abs() + 1e-5).all()


def test_an_image_has_the_same_positions_beside_others():
    table = table_of(16)
    together = grid_positions(table, batch_of(SHAPES)).split([h * w for h, w in SHAPES])
    for shape, own in zip(SHAPES, together, strict=True):
        alone = grid_positions(table, batch_of([shape]))
        assert (alone - own).abs().max() <= 1e-6
