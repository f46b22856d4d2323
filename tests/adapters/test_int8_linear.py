"""Linear layers in int8 beside their plain twins: close to them, and blind to neighbours."""

import pytest
import torch
from torch import nn

from sie_mcp.adapters.layers.cpu.int8_linear import Int8Linear, has_int8

pytestmark = pytest.mark.skipif(not has_int8(), reason="no products of int8 here")


def pair(*, has_bias: bool = True) -> tuple[nn.Linear, Int8Linear]:
    torch.manual_seed(0)
    plain = nn.Linear(384, 96, bias=has_bias).bfloat16().requires_grad_(False)
    own = Int8Linear(plain)
    own.pack()
    return plain, own


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("num_rows", [1, 3, 64])
def test_integers_come_close_to_the_plain_product(num_rows: int, has_bias: bool) -> None:
    plain, own = pair(has_bias=has_bias)
    x = torch.randn(num_rows, 384).bfloat16() * torch.logspace(-3, 3, num_rows)[:, None].bfloat16()
    expected, found = plain(x).float(), own(x).float()
    assert found.shape == expected.shape
    assert torch.cosine_similarity(expected, found).min() > 0.999


def test_a_token_gives_the_same_alone_and_beside_a_larger_one() -> None:
    _, own = pair()
    x = torch.randn(5, 384).bfloat16()
    x[3] *= 1000
    torch.testing.assert_close(own(x)[:1], own(x[:1]), rtol=0, atol=0)


def test_zeros_give_the_bias_and_no_rows_give_none() -> None:
    plain, own = pair()
    torch.testing.assert_close(own(torch.zeros(2, 384).bfloat16())[0], plain.bias.data)
    assert own(torch.zeros(0, 384).bfloat16()).shape == (0, 96)


def test_wider_inputs_are_multiplied_by_what_the_integers_stand_for() -> None:
    plain, own = pair()
    x = torch.randn(2, 384)
    expected = nn.functional.linear(x, plain.weight.float(), plain.bias.float())
    torch.testing.assert_close(own(x), expected, rtol=0.05, atol=0.05)
    assert own(x).dtype == torch.float32
    assert own.size_bytes == 384 * 96
    own.drop()
    assert own.size_bytes == 0
    torch.testing.assert_close(own(x.bfloat16()), plain(x.bfloat16()))


@pytest.mark.parametrize("shape", [(96, 384), (1, 5), (130, 17)])
def test_weights_are_held_once_and_read_back_to_the_last_integer(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(shape[1], shape[0]).bfloat16().requires_grad_(False)
    own = Int8Linear(plain)
    own.pack()
    weights = plain.weight.float()
    scales = weights.abs().amax(1, keepdim=True) / 127
    expected = (weights / scales).round() * scales
    assert torch.equal(own.unpacked(), expected.bfloat16())
    assert own._held is not None
    held = [one for one in vars(own._held).values() if one.dtype == torch.int8]
    assert len(held) == 1
