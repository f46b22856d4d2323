"""The attention seam on the CPU, against attention written out for one sequence at a time."""

import logging
import sys
from typing import Any

import pytest
import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.buckets import EXACT_FROM
from sie_mcp.adapters.layers.attention import _torch_kernel, attention, read_kernels
from tests.eager import batch_of, eager, qkv

CPU = torch.device("cpu")
LENGTHS = {
    "one sequence": (17,),
    "equal lengths": (12, 12, 12),
    "similar lengths": (20, 17, 19, 20),
    "very different lengths": (1, 40, 7, 2, 33, 16, 1),
    "a single token": (1,),
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (3, 3)},
    "lopsided window": {"window": (2, 5)},
    "causal window": {"causal": True, "window": (4, 4)},
    "half-open window": {"window": (-1, 2)},
    "other scale": {"scale": 0.7},
    "capped": {"softcap": 0.8},
    "capped causal": {"softcap": 0.8, "causal": True},
    "capped lopsided window": {"softcap": 1.5, "window": (2, 5), "scale": 0.7},
}


def _attend(lengths: tuple[int, ...], seed: int = 0, **kind: Any) -> torch.Tensor:
    return attention(*qkv(sum(lengths), seed=seed), batch_of(lengths, CPU), **kind)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_it_equals_attention_written_out(lengths: tuple[int, ...], kind: dict[str, Any]) -> None:
    tensors = qkv(sum(lengths))
    out = attention(*tensors, batch_of(lengths, CPU), **kind)
    torch.testing.assert_close(out, eager(*tensors, lengths, **kind), atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("kind", [{}, {"causal": True}, {"window": (3, 3)}], ids=str)
def test_query_heads_may_share_key_heads(num_kv_heads: int, kind: dict[str, Any]) -> None:
    lengths = (5, 30, 29, 1)
    tensors = qkv(sum(lengths), num_kv_heads=num_kv_heads)
    out = attention(*tensors, batch_of(lengths, CPU), **kind)
    torch.testing.assert_close(out, eager(*tensors, lengths, **kind), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_bias_is_added_to_the_scores(kind: dict[str, Any]) -> None:
    lengths = (9, 12, 11, 3)
    bias = torch.randn(4, 12, 12, generator=torch.Generator().manual_seed(3))
    tensors = qkv(sum(lengths))
    out = attention(
        *tensors, batch_of(lengths, CPU), bias=lambda length: bias[:, :length, :length], **kind
    )
    expected = eager(*tensors, lengths, bias=bias, **kind)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [{}, {"causal": True}, {"window": (20, 20)}], ids=str)
def test_tokens_that_are_not_attended_see_and_are_not_seen(kind: dict[str, Any]) -> None:
    lengths, attended = (8, 12, 12, 5), (8, 4, None, 1)
    tensors = qkv(sum(lengths))
    out = attention(*tensors, batch_of(lengths, CPU, attended), **kind)
    expected = eager(*tensors, lengths, attended=attended, **kind)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_a_token_whose_window_holds_nothing_visible_gets_zero() -> None:
    out = attention(*qkv(12), batch_of((12,), CPU, (3,)), window=(2, 2))
    assert torch.isfinite(out).all()
    assert torch.equal(out[6:], torch.zeros_like(out[6:]))


def test_so_does_one_whose_scores_are_capped() -> None:
    out = attention(*qkv(12), batch_of((12,), CPU, (3,)), window=(2, 2), softcap=1.0)
    assert torch.equal(out[6:], torch.zeros_like(out[6:]))


def test_a_neighbour_with_nan_stays_alone_with_it_where_scores_are_capped() -> None:
    q, k, v = qkv(30)
    q[:14] = float("nan")
    out = attention(q, k, v, batch_of((14, 16), CPU), softcap=1.0)
    assert torch.isfinite(out[14:]).all()


def test_changing_the_last_token_leaves_earlier_ones_unchanged_when_causal() -> None:
    q, k, v = qkv(24)
    batch = batch_of((24,), CPU)
    before = {causal: attention(q, k, v, batch, causal=causal) for causal in (True, False)}
    for x in (q, k, v):
        x[-1] += 1.0
    after = {causal: attention(q, k, v, batch, causal=causal) for causal in (True, False)}
    assert torch.equal(before[True][:-1], after[True][:-1])
    assert (before[False][:-1] - after[False][:-1]).abs().max() > 1e-2


def test_the_window_changes_the_result() -> None:
    windowed, plain = _attend((200, 10), window=(8, 8)), _attend((200, 10))
    assert (windowed[:200] - plain[:200]).abs().max() > 1e-2


def test_a_window_wider_than_the_text_changes_nothing() -> None:
    torch.testing.assert_close(_attend((20, 6), window=(64, 64)), _attend((20, 6)))


@pytest.mark.parametrize("neighbour", [1, 16, 64, 512])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_neighbour_of_any_length_changes_nothing(neighbour: int, kind: dict[str, Any]) -> None:
    q, k, v = qkv(neighbour + 16)
    beside = attention(q, k, v, batch_of((neighbour, 16), CPU), **kind)[neighbour:]
    alone = attention(*(x[neighbour:] for x in (q, k, v)), batch_of((16,), CPU), **kind)
    torch.testing.assert_close(beside, alone, atol=1e-6, rtol=0)


def test_a_neighbour_that_is_not_finite_stays_alone_with_it() -> None:
    q, k, v = qkv(30)
    for x in (q, k, v):
        x[:14] = float("nan")
    out = attention(q, k, v, batch_of((14, 16), CPU))
    assert torch.isfinite(out[14:]).all()


def test_buckets_are_made_once_a_batch_and_not_once_a_layer() -> None:
    batch = batch_of((3, 9, 10), CPU)
    attention(*qkv(22), batch)
    first = batch.buckets
    attention(*qkv(22, seed=1), batch)
    assert batch.buckets is first


def test_many_short_sequences_share_few_calls() -> None:
    lengths = tuple(6 + index % 11 for index in range(2000))
    assert len(batch_of(lengths, CPU).buckets) <= 6


def test_the_batch_gives_every_token_its_place(caplog: pytest.LogCaptureFixture) -> None:
    batch: PackedBatch = batch_of((3, 1, 2), CPU)
    with caplog.at_level(logging.WARNING):
        attention(*qkv(6), batch)
    assert batch.position_ids.tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.cu_seqlens.tolist() == [0, 3, 4, 6]
    assert batch.segments.tolist() == [0, 0, 0, 1, 2, 2]
    assert not caplog.records  # On the CPU buckets are the way, not a slow way.


def test_the_kernel_of_a_device_is_read_before_it_runs(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.nn.attention.varlen", raising=False)
    _torch_kernel.cache_clear()
    read_kernels(CPU)
    assert "torch.nn.attention.varlen" not in sys.modules
    read_kernels(torch.device("cuda"))
    assert "torch.nn.attention.varlen" in sys.modules


def test_long_sequences_are_padded_to_no_other_length() -> None:
    lengths = (12, EXACT_FROM + 9, 10, EXACT_FROM + 9, EXACT_FROM)
    batch = batch_of(lengths, torch.device("cpu"))
    members = {bucket.members: bucket.is_full for bucket in batch.exact_buckets}
    assert members == {(1, 3): True, (4,): True, (0, 2): False}
    q, k, v = qkv(sum(lengths))
    torch.testing.assert_close(
        attention(q, k, v, batch), eager(q, k, v, lengths).to(q.dtype), rtol=1e-4, atol=1e-5
    )
