"""Faster ways are off unless asked for, and off again where they give other numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows
from sie_mcp.adapters.agreement import comparable, disagreement
from sie_mcp.adapters.fast_paths import FastAdapter, paths_of
from sie_mcp.adapters.layers.kernels.switch import allows_kernels
from sie_mcp.adapters.path_check import with_paths
from sie_mcp.engine.retry_wide import WideAdapter
from tests.adapters.test_self_check import ToyEncoder
from tests.eager import batch_of

CPU = torch.device("cpu")
ALL = frozenset({"kernels", "graphs", "overlap"})


class Toy(ToyEncoder):
    """One that lacks nothing of what the engine asks for."""

    weights = tokenizer = None


def vectors(batch: PackedBatch) -> torch.Tensor:
    return torch.tensor(batch.lengths).float()[:, None].repeat(1, 3)


def failures(path: str) -> float:
    return metrics.REGISTRY.get_sample_value("sie_fast_paths_off_total", {"path": path}) or 0.0


def test_a_batch_takes_no_faster_way_by_itself() -> None:
    batch = batch_of((3, 4), CPU)
    assert batch.paths == frozenset()
    assert not allows_kernels(batch)
    assert allows_kernels(replace(batch, paths=frozenset({"kernels"})))
    assert not allows_kernels(replace(batch, paths=frozenset({"graphs", "overlap"})))
    padded = replace(batch, allows_kernels=False, paths=ALL)
    assert not allows_kernels(padded)


def test_ways_that_give_the_same_are_taken() -> None:
    adapter = with_paths(Toy(vectors), CPU, ALL)
    assert paths_of(adapter) == ALL
    assert paths_of(Toy(vectors)) == frozenset()


def raises(batch: PackedBatch) -> torch.Tensor:
    raise RuntimeError("PTX is none")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda batch: vectors(batch) * 1.2, "dense: numbers differ by 4"),
        (lambda batch: vectors(batch) * float("nan"), "dense: numbers differ by nan"),
        (raises, "RuntimeError: PTX is none"),
    ],
)
def test_kernels_that_give_something_else_are_off_and_said_to_be(
    wrong: Callable[[PackedBatch], torch.Tensor], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    toy = Toy(lambda batch: (wrong if "kernels" in batch.paths else vectors)(batch))
    before = failures("kernels")
    adapter = with_paths(toy, CPU, ALL)
    assert paths_of(adapter) == ALL - {"kernels"}
    assert failures("kernels") == before + 1
    assert f"path=kernels for=toy reason={message}" in caplog.text


@pytest.mark.parametrize(("off", "passes"), [(1.1, True), (1.5, False), (float("nan"), False)])
def test_a_way_as_near_to_float32_as_the_plain_one_is_taken(off: float, passes: bool) -> None:
    def rounded(batch: PackedBatch) -> torch.Tensor:
        if not batch.allows_kernels:
            return vectors(batch)  # The second try in float32.
        return vectors(batch) * (off if "kernels" in batch.paths else 0.9)

    adapter = with_paths(Toy(rounded), CPU, frozenset({"kernels"}))
    assert paths_of(adapter) == (frozenset({"kernels"}) if passes else frozenset())


def test_batches_that_change_one_another_do_not_overlap() -> None:
    kept = torch.zeros(2, 3)

    class Shares(Toy):
        def forward(self, batch: PackedBatch) -> Outputs:
            # As a recorded pass would that hands out its own memory.
            rows = kept[: batch.num_seqs].copy_(vectors(batch))
            return {"dense": Rows(rows, tuple(range(batch.num_seqs + 1)))}

    before = failures("overlap")
    assert paths_of(with_paths(Shares(vectors), CPU, ALL)) == ALL - {"overlap"}
    assert failures("overlap") == before + 1


def test_no_memory_says_nothing_of_a_way() -> None:
    def full(batch: PackedBatch) -> torch.Tensor:
        if batch.paths:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return vectors(batch)

    with pytest.raises(torch.OutOfMemoryError):
        with_paths(Toy(full), CPU, ALL)


def test_a_second_try_in_float32_takes_none() -> None:
    seen = []
    toy = Toy(lambda batch: seen.append(batch.paths) or vectors(batch))
    fast = FastAdapter(toy, ALL)
    fast.forward(batch_of((3,), CPU))
    wide = WideAdapter(fast)
    wide.forward(batch_of((3,), CPU))
    assert seen == [ALL, frozenset()]
    assert paths_of(wide) == frozenset()


def test_a_card_is_the_adapter_s_own() -> None:
    toy = Toy(vectors)
    fast = FastAdapter(toy, ALL)
    fast.card = fast.card.model_copy(update={"name": "other"})
    assert toy.card.name == fast.card.name == "other"


def test_one_wrong_row_among_large_numbers_is_seen() -> None:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((50, 32)).astype(np.float32)
    expected[0] *= 100
    found = expected + rng.standard_normal(expected.shape).astype(np.float32) * 1e-3
    assert disagreement(found, expected) == ""
    found[7] = -found[7]
    assert disagreement(found, expected).startswith("a row's cosine is -")
    assert disagreement(found[1:], expected) == "shape (49, 32) instead of (50, 32)"
    assert disagreement(np.zeros((3, 32)), np.zeros((3, 32))) == ""


def test_weights_of_sparse_vectors_are_compared_where_they_stand() -> None:
    def sparse(**weights: float) -> dict[str, np.ndarray]:
        return {
            "sparse_indices": np.array([int(one[1:]) for one in weights], np.int32),
            "sparse_values": np.array(list(weights.values()), np.float32),
        }

    plain = sparse(_2=1.0, _5=0.7, _20=0.4)
    # One weight more near zero and one less, as rounding would have it; and a weight elsewhere.
    for found, is_same in (
        (sparse(_2=1.0, _3=1e-3, _5=0.7, _20=0.4), True),
        (sparse(_1=1e-3, _2=1.0, _5=0.7, _20=0.4), True),
        (sparse(_2=1.0, _6=0.7, _20=0.4), False),
        (sparse(), False),
    ):
        [(name, one, other)] = comparable(found, plain)
        assert name == "sparse_values"
        assert (disagreement(one, other) == "") == is_same
        assert one.shape == other.shape == (1, 21)
