"""The check at the end of a load, on a toy model that can be made wrong in each way."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Rows, Sequence
from sie_mcp.adapters.self_check import check
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.wire import Request, Response

CPU = torch.device("cpu")
Vectors = Callable[[PackedBatch], torch.Tensor]


class ToyEncoder:
    """Gives each sequence the vector that `vectors` makes for it."""

    def __init__(self, vectors: Vectors) -> None:
        self.card = wire.ModelCard(
            name="toy", outputs=["dense"], primitives=["encode"], dims={"dense": 3}, packed=True
        )
        self._vectors = vectors

    def prepare(self, request: Request) -> Prepared:
        assert isinstance(request, wire.EncodeRequest)
        lengths = [len(item.text or "") for item in request.items]
        return Prepared([Sequence(np.zeros(length, np.int64)) for length in lengths])

    def forward(self, batch: PackedBatch) -> Outputs:
        return {"dense": Rows(self._vectors(batch), tuple(range(batch.num_seqs + 1)))}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        raise NotImplementedError


def _right(batch: PackedBatch) -> torch.Tensor:
    return torch.tensor(batch.lengths).float()[:, None].repeat(1, 3)


def test_a_right_model_passes() -> None:
    check(ToyEncoder(_right), CPU)


def test_numbers_that_are_not_finite_fail() -> None:
    with pytest.raises(ModelLoadFailed, match="toy: the model's dense output is not finite"):
        check(ToyEncoder(lambda batch: _right(batch) / 0), CPU)


def test_another_width_than_the_card_says_fails() -> None:
    with pytest.raises(ModelLoadFailed, match="dense output is 2 wide instead of 3"):
        check(ToyEncoder(lambda batch: _right(batch)[:, :2]), CPU)


def test_a_neighbour_that_changes_the_result_fails() -> None:
    with pytest.raises(ModelLoadFailed, match=r"dense differs by .* beside another text"):
        check(ToyEncoder(lambda batch: _right(batch) * batch.max_seqlen), CPU)


def test_a_neighbour_that_leaves_no_number_fails() -> None:
    def vectors(batch: PackedBatch) -> torch.Tensor:
        return _right(batch) * (1.0 if batch.num_seqs == 1 else float("nan"))

    with pytest.raises(ModelLoadFailed, match="dense differs by nan beside another text"):
        check(ToyEncoder(vectors), CPU)


def test_rounding_does_not_fail() -> None:
    check(ToyEncoder(lambda batch: _right(batch) * (1 + 1e-6 * batch.num_seqs)), CPU)


def _failing(batch: PackedBatch) -> torch.Tensor:
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_a_model_that_cannot_run_fails() -> None:
    with pytest.raises(ModelLoadFailed, match="toy cannot run: mat1"):
        check(ToyEncoder(_failing), CPU)
