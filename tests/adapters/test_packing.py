"""How sequences are laid end to end: ids, positions, types, and the tiles of kernels."""

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Prefix, Rows, Sequence
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.tiles import TILE_ROWS, make_tiles

CPU = torch.device("cpu")


def test_positions_start_anew_in_each_sequence_and_go_on_from_a_prefix():
    prefix = Prefix(np.array([7, 8]))
    parts = [Sequence(np.array([1, 2, 3])), Sequence(np.array([4]), prefix=prefix)]
    batch = pack(parts, CPU)
    assert batch.input_ids.tolist() == [7, 8, 1, 2, 3, 4]
    assert batch.position_ids.tolist() == [0, 1, 0, 1, 2, 2]
    assert batch.cu_seqlens.tolist() == [0, 2, 5, 6]
    assert batch.prefix_of == (-1, -1, 0)


def test_token_types_are_zero_where_a_sequence_has_none():
    typed = Sequence(np.array([4, 5]), np.array([0, 1]))
    batch = pack([Sequence(np.array([1, 2, 3])), typed, Sequence(np.array([6]))], CPU)
    assert batch.token_type_ids.tolist() == [0, 0, 0, 0, 1, 0]


def test_results_are_cut_by_sequence():
    values = torch.arange(6.0).view(3, 2)
    results = unpack({"dense": Rows(values.bfloat16(), (0, 1, 3))}, 2)
    assert results[0]["dense"].tolist() == [[0.0, 1.0]]
    assert results[1]["dense"].tolist() == [[2.0, 3.0], [4.0, 5.0]]


@pytest.mark.parametrize("lengths", [(1,), (TILE_ROWS,), (TILE_ROWS + 1, 3), (5, 300, 1, 128)])
def test_tiles_cover_each_token_once(lengths):
    covered = [
        (int(sequence), token)
        for sequence, first in make_tiles(lengths)
        for token in range(first, min(first + TILE_ROWS, lengths[sequence]))
    ]
    assert covered == [(i, token) for i, length in enumerate(lengths) for token in range(length)]
    assert all(first < lengths[sequence] for sequence, first in make_tiles(lengths))
