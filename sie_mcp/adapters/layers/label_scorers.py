"""How well each label fits its text: scorers over label vectors laid end to end.

Source: gliclass's scorers of the same names. All take texts `(num_seqs, width)`, labels
`(num_labels, width)` and the sequence of each label, and return `(num_labels,)`.
"""

from collections.abc import Callable

import torch
from torch import nn

# As the library builds it, whatever config.json says of widths.
_MLP_SIZE = 256
_BETA = 4


class Dot(nn.Module):
    """The product of both vectors."""

    def __init__(self, _: int) -> None:
        super().__init__()

    def forward(
        self, texts: torch.Tensor, labels: torch.Tensor, owners: torch.Tensor
    ) -> torch.Tensor:
        """Return `(num_labels,)`."""
        return (texts[owners] * labels).sum(-1)


class WeightedDot(nn.Module):
    """Both vectors projected twice; an MLP judges one pair beside the product of the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj_text = nn.Linear(width, 2 * width)
        self.proj_label = nn.Linear(width, 2 * width)
        # The places are those of the library's layers; between them are dropout and relu.
        self.out_mlp = nn.ModuleDict(
            {"0": nn.Linear(3 * width, 4 * width), "3": nn.Linear(4 * width, 1)}
        )

    def forward(
        self, texts: torch.Tensor, labels: torch.Tensor, owners: torch.Tensor
    ) -> torch.Tensor:
        """Return `(num_labels,)`."""
        text, text_factor = self.proj_text(texts)[owners].chunk(2, dim=-1)
        label, label_factor = self.proj_label(labels).chunk(2, dim=-1)
        joined = torch.cat([text, label, text_factor * label_factor], dim=-1)
        scores: torch.Tensor = self.out_mlp["3"](torch.relu(self.out_mlp["0"](joined)))
        return scores[:, 0]


class Mlp(nn.Module):
    """Three layers over both vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = _three_layers(2 * width)

    def forward(
        self, texts: torch.Tensor, labels: torch.Tensor, owners: torch.Tensor
    ) -> torch.Tensor:
        """Return `(num_labels,)`."""
        return _through(self.mlp, torch.cat([texts[owners], labels], dim=-1))


class Hopfield(nn.Module):
    """Labels share out the text among them, then an MLP judges each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.mlp = _three_layers(width)

    def forward(
        self, texts: torch.Tensor, labels: torch.Tensor, owners: torch.Tensor
    ) -> torch.Tensor:
        """Return `(num_labels,)`."""
        match = (self.q_proj(labels) * self.k_proj(texts)[owners]).sum(-1) * _BETA
        shares = _softmax(match, owners, len(texts)).to(labels.dtype)
        return _through(self.mlp, labels + shares[:, None] * self.v_proj(texts)[owners])


def _softmax(values: torch.Tensor, owners: torch.Tensor, num_seqs: int) -> torch.Tensor:
    """Return the softmax over the labels of each sequence, float32 `(num_labels,)`."""
    exact = values.float()
    highest = torch.full((num_seqs,), float("-inf"), device=values.device)
    highest.scatter_reduce_(0, owners, exact, "amax")
    powers = (exact - highest[owners]).exp()
    total = torch.zeros(num_seqs, device=values.device).index_add_(0, owners, powers)
    return powers / total[owners]


def _three_layers(width: int) -> nn.ModuleDict:
    """Return the layers under their places among the library's, relu between them."""
    return nn.ModuleDict(
        {
            "0": nn.Linear(width, _MLP_SIZE),
            "2": nn.Linear(_MLP_SIZE, _MLP_SIZE // 2),
            "4": nn.Linear(_MLP_SIZE // 2, 1),
        }
    )


def _through(mlp: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
    x = torch.relu(mlp["2"](torch.relu(mlp["0"](x))))
    scores: torch.Tensor = mlp["4"](x)
    return scores[:, 0]


SCORERS: dict[str, Callable[[int], nn.Module]] = {
    "simple": Dot,
    "weighted-dot": WeightedDot,
    "mlp": Mlp,
    "hopfield": Hopfield,
}
