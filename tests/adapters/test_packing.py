"""How sequences are laid end to end: ids, positions, types, and the tiles of kernels."""

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Prefix, Rows, Sequence
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.tiles import SIZES, TILE_WIDTH, lay_out, make_tiles, max_seqs

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


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("lengths", [(1,), (64,), (65, 3), (5, 300, 1, 128)])
def test_tiles_cover_each_token_once(lengths, rows):
    tiles = make_tiles(lengths, rows)
    ends = np.cumsum(lengths)
    covered = [
        (int(start), int(end), token)
        for start, end, first in tiles
        for token in range(first, min(first + rows, end))
    ]
    assert covered == [
        (end - length, end, token)
        for end, length in zip(ends, lengths, strict=True)
        for token in range(end - length, end)
    ]
    assert (tiles[:, 2] < tiles[:, 1]).all()
    assert ((tiles[:, 2] - tiles[:, 0]) % rows == 0).all()


@pytest.mark.parametrize(
    "lengths", [(1,), (16,), (3, 4, 9), (1,) * 60, (500,) * 30, (20_000,), (70_000,)]
)
def test_what_is_behind_a_batch_in_its_layout_is_empty(lengths):
    ends = np.cumsum((0, *lengths), dtype=np.int32)
    layout = lay_out(lengths, ends)
    own, others = np.split(layout.numbers[: layout.num_ends], [len(lengths) + 1])
    assert own.tolist() == ends.tolist()
    assert (others == ends[-1]).all()
    tiles = layout.numbers[layout.num_ends :].reshape(-1, TILE_WIDTH)
    expected = make_tiles(lengths, layout.tile_rows)
    assert (tiles[: layout.num_tiles] == expected).all()
    assert (tiles[layout.num_tiles :, 2] >= tiles[layout.num_tiles :, 1]).all()
    if layout.size is None:
        assert ends[-1] > SIZES[-1]
    else:
        assert ends[-1] <= layout.size
        assert len(lengths) <= max_seqs(layout.size)
