"""Computing in float32 with weights of half precision, on modules that read them in odd ways."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from sie_mcp.adapters.widened import widened

HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
IDS = torch.tensor([3, 1, 4, 1])


class Odd(nn.Module):
    """Reads a table that two modules share, another module's weight, and one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(6, 8)
        self.linear = nn.Linear(8, 12)
        self.norm = nn.LayerNorm(8)
        self.decoder = nn.Linear(8, 6)
        self.decoder.weight = self.word.weight
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.word(ids) * self.scale + self.word.weight[2:3])
        first, _ = self.linear.weight.chunk(2)
        x = torch.cat([functional.linear(x, first), x[:, 6:].to(self.scale.dtype)], dim=1)
        zeros = torch.zeros(len(ids), 6, dtype=self.linear.weight.dtype)
        zeros += self.decoder(x) * 1e5
        return zeros.type_as(self.scale).half()


def odd(dtype: torch.dtype) -> tuple[Odd, Odd]:
    """Return a module, and the same in float32."""
    torch.manual_seed(0)
    narrow, full = Odd().to(dtype), Odd()
    full.load_state_dict(narrow.state_dict())
    return narrow, full


def in_float32(module: nn.Module) -> torch.Tensor:
    with torch.inference_mode(), widened():
        found: torch.Tensor = module(IDS)
    return found


@HALF
def test_every_read_of_a_weight_is_in_float32(dtype: torch.dtype) -> None:
    narrow, full = odd(dtype)
    before = {name: (one, one.dtype) for name, one in narrow.named_parameters()}
    found = in_float32(narrow)
    assert found.dtype == torch.float32
    assert found.abs().max() > 65_504
    assert torch.equal(found, in_float32(full))
    for name, one in narrow.named_parameters():
        assert one is before[name][0]
        assert one.dtype == before[name][1] == dtype
    assert narrow.decoder.weight is narrow.word.weight


def test_an_exception_leaves_nothing_behind() -> None:
    narrow, _ = odd(torch.float16)
    with torch.inference_mode():
        plain = narrow(IDS)
    with pytest.raises(IndexError):
        in_float32(nn.Sequential(narrow.word, nn.Flatten(0, 9)))
    with torch.inference_mode():
        after = narrow(IDS)
    assert after.dtype == torch.float16
    assert torch.equal(after, plain)


def test_writing_into_half_precision_is_refused_and_not_lost() -> None:
    table, wide = torch.zeros(3, dtype=torch.float16), torch.ones(3)
    with widened():
        for write in (
            lambda: table.add_(1),
            lambda: table.__setitem__(0, 1.0),
            lambda: torch.add(wide, wide, out=table),
        ):
            with pytest.raises(RuntimeError, match=r"writes into torch\.float16"):
                write()
    assert table.tolist() == [0.0, 0.0, 0.0]


def test_other_threads_compute_as_before() -> None:
    x = torch.ones(2, dtype=torch.float16)
    found: list[torch.dtype] = []
    with widened():
        thread = threading.Thread(target=lambda: found.append((x + x).dtype))
        thread.start()
        thread.join()
        assert (x + x).dtype == torch.float32
    assert found == [torch.float16]
