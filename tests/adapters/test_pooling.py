"""Pooling of packed token vectors, against each mode written out for one sequence."""

from collections.abc import Callable

import pytest
import torch

from sie_mcp.adapters.layers.pooling import add_up, pool
from sie_mcp.adapters.recipe import PoolingMode
from tests.eager import batch_of

CPU = torch.device("cpu")
LENGTHS = (1, 5, 30, 2, 5)


def _weighted(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    weights = (places + 1).double()
    return (x * weights[:, None]).sum(0) / weights.sum()


# What one sequence's kept vectors `x`, standing at `places`, become.
WRITTEN_OUT: dict[PoolingMode, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": lambda x, _: x[0],
    "max": lambda x, _: x.amax(0),
    "mean": lambda x, _: x.mean(0),
    "mean_sqrt_len_tokens": lambda x, _: x.sum(0) / len(x) ** 0.5,
    "weightedmean": _weighted,
    "lasttoken": lambda x, _: x[-1],
}


def _expected(x: torch.Tensor, kept: torch.Tensor, mode: PoolingMode) -> torch.Tensor:
    rows = []
    for own, keep in zip(x.double().split(LENGTHS), kept.split(LENGTHS), strict=True):
        places = torch.nonzero(keep).flatten()
        rows.append(WRITTEN_OUT[mode](own[places], places))
    return torch.stack(rows).float()


def _random(seed: int = 0) -> torch.Tensor:
    return torch.randn(sum(LENGTHS), 7, generator=torch.Generator().manual_seed(seed)) - 0.5


@pytest.mark.parametrize("mode", WRITTEN_OUT)
def test_each_mode_equals_its_formula(mode: PoolingMode) -> None:
    x = _random()
    everything = torch.ones(len(x), dtype=torch.bool)
    out = pool(x, batch_of(LENGTHS, CPU), [mode])
    torch.testing.assert_close(out, _expected(x, everything, mode), atol=1e-6, rtol=0)


@pytest.mark.parametrize("mode", WRITTEN_OUT)
def test_tokens_that_do_not_count_are_left_out(mode: PoolingMode) -> None:
    x, batch = _random(), batch_of(LENGTHS, CPU)
    kept = batch.position_ids >= torch.tensor((0, 3, 29, 1, 0))[batch.segments]
    out = pool(x, batch, [mode], kept)
    torch.testing.assert_close(out, _expected(x, kept, mode), atol=1e-6, rtol=0)


@pytest.mark.parametrize("mode", WRITTEN_OUT)
def test_a_sequence_of_which_nothing_counts_is_zero(mode: PoolingMode) -> None:
    batch = batch_of((3, 2), CPU)
    kept = batch.segments == 1
    out = pool(_random()[:5], batch, [mode], kept)
    assert torch.equal(out[0], torch.zeros(7))
    assert out[1].abs().sum() > 0


def test_modes_are_concatenated_in_the_order_given() -> None:
    x, batch = _random(), batch_of(LENGTHS, CPU)
    both = pool(x, batch, ["mean", "cls"])
    assert torch.equal(both, torch.cat([pool(x, batch, ["mean"]), pool(x, batch, ["cls"])], -1))


def test_half_precision_is_accumulated_in_float32() -> None:
    x = torch.full((4096, 2), 0.1).to(torch.bfloat16)
    out = pool(x, batch_of((4096,), CPU), ["mean"])
    assert out.dtype == torch.float32
    torch.testing.assert_close(out[0], x[0].float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("lengths", [LENGTHS, (1,), (300, 1, 299)])
def test_rows_added_in_order_give_what_rows_added_anyhow_give(lengths: tuple[int, ...]) -> None:
    x = torch.randn(sum(lengths), 7, generator=torch.Generator().manual_seed(1))
    batch = batch_of(lengths, CPU)
    in_order = add_up(x, batch, in_order=True)
    assert in_order.shape == (len(lengths), 7)
    torch.testing.assert_close(in_order, add_up(x, batch, in_order=False), atol=1e-5, rtol=1e-6)
    assert torch.equal(add_up(x, batch), add_up(x, batch, in_order=False))
