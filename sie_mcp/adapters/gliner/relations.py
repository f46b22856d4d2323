"""The module that links entities: which pairs are worth a look, then a score for each relation.

Source: relations_layers.py and triples_layers.py of the gliner package. One text at a time, so that
no padding takes part. Device thread only.
"""

import torch
from torch import nn

from sie_mcp.adapters.gliner.layers import two_layers, words_per_block
from sie_mcp.adapters.gliner.rule import RelationRule, Triple

# The reference builds its attention with so many, whatever the checkpoint says.
_NUM_HEADS = 8


class RelationHead(nn.Module):
    """Links entities by their spans' vectors."""

    def __init__(self, rule: RelationRule, size: int) -> None:
        super().__init__()
        self.links: nn.Module | None = None
        if rule.adjacency != "none":
            self.links = _LINKS[rule.adjacency](size)
        self.triple = rule.triple
        self.pair = two_layers(2 * size, size) if rule.triple is None else None

    def pairs(self, nodes: torch.Tensor, threshold: float) -> torch.Tensor:
        """Return which entities are looked at as head and tail, int64 `(num_pairs, 2)`.

        Args:
            nodes: `(num_nodes, hidden_size)`.
            threshold: Of the link between two; one equal to it is not over it.
        """
        linked = torch.ones(len(nodes), len(nodes), dtype=torch.bool, device=nodes.device)
        if self.links is not None:
            linked = self.links(nodes) > threshold
        return linked.fill_diagonal_(False).nonzero()

    def forward(
        self, nodes: torch.Tensor, pairs: torch.Tensor, relations: torch.Tensor
    ) -> torch.Tensor:
        """Return logits, float32 `(num_pairs, num_relations)`.

        Args:
            nodes: `(num_nodes, hidden_size)`.
            pairs: int64 `(num_pairs, 2)`, the places of head and tail.
            relations: `(num_relations, hidden_size)`.
        """
        logits = nodes.new_empty((len(pairs), len(relations)), dtype=torch.float32)
        row_bytes = nodes.shape[1] * nodes.element_size() * (8 + 3 * len(relations))
        step = words_per_block(row_bytes)
        for first in range(0, len(pairs), step):
            heads, tails = (nodes[one] for one in pairs[first : first + step].T)
            logits[first : first + step] = self._scores(heads, tails, relations)
        return logits

    def _scores(
        self, heads: torch.Tensor, tails: torch.Tensor, relations: torch.Tensor
    ) -> torch.Tensor:
        if self.pair is not None:
            both: torch.Tensor = self.pair(torch.cat([heads, tails], dim=-1))
            return both @ relations.T
        assert self.triple is not None
        return _triple(self.triple, heads, relations, tails)


def _triple(
    formula: Triple, heads: torch.Tensor, relations: torch.Tensor, tails: torch.Tensor
) -> torch.Tensor:
    if formula == "DistMult":
        return (heads * tails) @ relations.T
    if formula == "DistMA":
        return heads @ relations.T + tails @ relations.T + (heads * tails).sum(-1, keepdim=True)
    real, imaginary = heads.chunk(2, dim=-1)
    other_real, other_imaginary = tails.chunk(2, dim=-1)
    match = torch.cat(
        [
            real * other_real + imaginary * other_imaginary,
            real * other_imaginary - imaginary * other_real,
        ],
        dim=-1,
    )
    return match @ relations.T


class _Dot(nn.Module):
    def __init__(self, _: int) -> None:
        super().__init__()

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        return (nodes @ nodes.T).sigmoid()


class _Mlp(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, 1))

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        num, size = nodes.shape
        heads, tails = nodes[:, None].expand(num, num, size), nodes[None].expand(num, num, size)
        scores: torch.Tensor = self.mlp(torch.cat([heads, tails], dim=-1)).squeeze(-1)
        return scores.sigmoid()


class _Bilinear(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.proj = nn.Linear(size, size)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        projected = self.proj(nodes)
        links: torch.Tensor = (projected @ projected.T).sigmoid()
        return links


class _Gcn(_Bilinear):
    """A graph of dot products, each entity the sum of those it is linked to, and a look again."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.linear = nn.Linear(size, size)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        links = (nodes @ nodes.T).sigmoid()
        links = links + torch.eye(len(links), dtype=links.dtype, device=links.device)
        scale = links.sum(-1).clamp(min=1e-6).pow(-0.5)
        normed = scale[:, None] * links * scale
        return super().forward(self.linear(normed @ nodes).relu())


class _Gat(nn.Module):
    """Entities attend to one another, then dot products of what each has seen."""

    def __init__(self, size: int) -> None:
        super().__init__()
        if size % _NUM_HEADS:
            raise ValueError(f"hidden_size {size} is no multiple of {_NUM_HEADS}")
        self.joint = nn.Linear(size, 3 * size)
        self.out_proj = nn.Linear(size, size)
        self.linear = nn.Linear(size, size)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        num, size = nodes.shape
        q, k, v = self.joint(nodes).view(num, 3, _NUM_HEADS, size // _NUM_HEADS).permute(1, 2, 0, 3)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        projected = self.linear(self.out_proj(seen.transpose(0, 1).reshape(num, size)))
        links: torch.Tensor = (projected @ projected.T).sigmoid()
        return links


_LINKS: dict[str, type[nn.Module]] = {
    "dot": _Dot,
    "mlp": _Mlp,
    "bilinear": _Bilinear,
    "gcn": _Gcn,
    "gat": _Gat,
}
