"""The slopes of ALiBi, against those that its authors print."""

import torch

from sie_mcp.adapters.layers.alibi import alibi, slopes


def test_eight_heads_halve_from_a_half():
    assert slopes(8) == [2.0**-n for n in range(1, 9)]


def test_twelve_heads_are_those_of_eight_and_every_other_of_sixteen():
    assert slopes(12)[:8] == slopes(8)
    assert slopes(12)[8:] == slopes(16)[:8:2]
    assert len(slopes(12)) == 12


def test_one_head_has_the_last_slope():
    assert slopes(1) == [2.0**-8]


def test_both_directions_lose_alike():
    bias = alibi(5, num_heads=8, dtype=torch.float32, device=torch.device("cpu"))
    assert bias.shape == (8, 5, 5)
    assert bias[0, 1].tolist() == [-0.5, 0.0, -0.5, -1.0, -1.5]
    assert torch.equal(bias, bias.transpose(1, 2))
