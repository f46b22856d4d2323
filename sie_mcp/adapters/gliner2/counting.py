"""From a schema's fields to queries, one for each field of each record that is looked for.

Source: layers.py of the gliner2 package; its three counting layers under their names.
"""

import itertools
from collections.abc import Callable

import torch
from torch import nn

from sie_mcp.adapters.gliner2.settings import NUM_COUNTS

_NARROW, _NARROW_HEADS, _NARROW_LAYERS = 128, 4, 2
_NUM_EXPERTS, _EXPERT_WIDTH = 4, 2


def relu_layers(*sizes: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Gru(nn.Module):
    """One layer of a GRU, its tensors named as torch names them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight_ih_l0 = nn.Parameter(torch.empty(3 * size, size))
        self.weight_hh_l0 = nn.Parameter(torch.empty(3 * size, size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(3 * size))
        self.bias_hh_l0 = nn.Parameter(torch.empty(3 * size))

    def forward(self, steps: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the state after each step, `(num_steps, num_rows, size)`.

        Args:
            steps: `(num_steps, size)`, the same for all rows.
            state: `(num_rows, size)`, before the first.
        """
        weights = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)
        states = []
        for step in steps:
            state = torch.gru_cell(step.expand_as(state), state, *weights)
            states.append(state)
        return torch.stack(states)


class Counting(nn.Module):
    """Unrolls fields over the places of records: the first, the second, …"""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Embedding(NUM_COUNTS, size)
        self.gru = Gru(size)

    def unrolled(self, fields: torch.Tensor, count: int) -> torch.Tensor:
        """Return `(count, num_fields, size)` of fields `(num_fields, size)`."""
        states: torch.Tensor = self.gru(self.pos_embedding.weight[:count], fields)
        return states


class Projected(Counting):
    """Two layers over the unrolled and the plain field."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.projector = relu_layers(2 * size, 4 * size, size)

    def forward(self, fields: torch.Tensor, count: int) -> torch.Tensor:
        """Return queries `(count, num_fields, size)`."""
        states = self.unrolled(fields, count)
        queries: torch.Tensor = self.projector(torch.cat([states, fields.expand_as(states)], -1))
        return queries


class Narrow(nn.Module):
    """A small transformer over the fields of one record, beside them as they were."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.in_projector = nn.Linear(size, _NARROW)
        layer = nn.TransformerEncoderLayer(
            _NARROW, _NARROW_HEADS, 2 * _NARROW, dropout=0.0, batch_first=True
        )
        self.transformer = nn.TransformerEncoder(layer, _NARROW_LAYERS, enable_nested_tensor=False)
        self.out_projector = relu_layers(_NARROW + size, size, size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `(count, num_fields, size)` of the same."""
        narrow = self.transformer(self.in_projector(x))
        wide: torch.Tensor = self.out_projector(torch.cat([narrow, x], dim=-1))
        return wide


class Attended(Counting):
    """The fields of a record see each other."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.transformer = Narrow(size)

    def forward(self, fields: torch.Tensor, count: int) -> torch.Tensor:
        """Return queries `(count, num_fields, size)`."""
        queries: torch.Tensor = self.transformer(self.unrolled(fields, count) + fields)
        return queries


class Mixed(Counting):
    """Several experts, weighted for each field."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        inner = _EXPERT_WIDTH * size
        self.w1 = nn.Parameter(torch.empty(_NUM_EXPERTS, size, inner))
        self.b1 = nn.Parameter(torch.empty(_NUM_EXPERTS, inner))
        self.w2 = nn.Parameter(torch.empty(_NUM_EXPERTS, inner, size))
        self.b2 = nn.Parameter(torch.empty(_NUM_EXPERTS, size))
        self.router = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, _NUM_EXPERTS))

    def forward(self, fields: torch.Tensor, count: int) -> torch.Tensor:
        """Return queries `(count, num_fields, size)`."""
        states = self.unrolled(fields, count)
        shares = torch.softmax(self.router(states), dim=-1)
        inner = torch.einsum("cfd,edh->cfeh", states, self.w1) + self.b1
        outer = torch.einsum("cfeh,ehd->cfed", nn.functional.gelu(inner), self.w2) + self.b2
        return (shares[..., None] * outer).sum(dim=2)


COUNTING: dict[str, Callable[[int], nn.Module]] = {
    "count_lstm": Projected,
    "count_lstm_v2": Attended,
    "count_lstm_moe": Mixed,
}
