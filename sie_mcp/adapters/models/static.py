"""Static embeddings: a table of vectors and nothing else (Model2Vec, StaticEmbedding).

Source: model2vec's StaticModel; the quantised form keeps fewer vectors than tokens, with a map
from token to vector and a weight a token.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.model import Architecture, Config


class Static(nn.Module):
    """Packed ids in, their vectors out. Sizes are those of the tensors, put into the config."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.table = nn.Embedding(config["num_vectors"], config["hidden_size"])
        num_weights, num_mapped = config["num_weights"], config["num_mapped_tokens"]
        self.weight = nn.Parameter(torch.empty(num_weights)) if num_weights else None
        mapping = torch.empty(num_mapped, dtype=torch.int64)
        self.mapping = nn.Parameter(mapping, requires_grad=False) if num_mapped else None

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        ids = batch.input_ids if self.mapping is None else self.mapping[batch.input_ids]
        vectors: torch.Tensor = self.table(ids)
        if self.weight is None:
            return vectors
        return vectors * self.weight[batch.input_ids][:, None]


ARCHITECTURE = Architecture(
    build=Static,
    renames=(
        (r"embeddings?(?:\.weight)?", r"table.weight"),
        (r"weights", r"weight"),
        (r"mapping", r"mapping"),
    ),
    prefixes=("0.",),
)
