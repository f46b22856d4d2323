"""What GLiREL puts on an encoder: vectors of entities and pairs, a second look, and scorers.

Source: Boylan et al. 2025; formulas and tensor names as in the glirel package's rel_rep.py and
layers.py. Knows one text's rows at a time, no batch.
"""

import torch
from torch import nn

from sie_mcp.adapters.gliner.layers import two_layers
from sie_mcp.adapters.glirel.rule import GlirelRule, Scorer

# The reference makes heads of this width.
_HEAD_DIM = 64


class Entities(nn.Module):
    """A vector of each entity: of its first and last word, or of the mean of all its words."""

    def __init__(self, rule: GlirelRule) -> None:
        super().__init__()
        size = rule.hidden_size
        self.is_mean = rule.span_mode == "markerv2"
        if self.is_mean:
            self.projection = two_layers(size, size)
        else:
            self.project_start = two_layers(size, size)
            self.project_end = two_layers(size, size)
            self.out_project = two_layers(2 * size, size)

    def forward(
        self, words: torch.Tensor, firsts: torch.Tensor, lasts: torch.Tensor
    ) -> torch.Tensor:
        """Return `(num_entities, hidden_size)`.

        Args:
            words: `(num_words, hidden_size)` of one text.
            firsts: int64 `(num_entities,)`, the first word of each.
            lasts: int64 `(num_entities,)`, its last word.
        """
        if self.is_mean:
            places = torch.arange(len(words), device=words.device)
            inside = (places >= firsts[:, None]) & (places <= lasts[:, None])
            sums = inside.to(words.dtype) @ words
            means: torch.Tensor = self.projection(sums / (lasts - firsts + 1)[:, None])
            return means
        ends = [self.project_start(words[firsts]), self.project_end(words[lasts])]
        found: torch.Tensor = self.out_project(torch.cat(ends, dim=-1).relu())
        return found


class Refine(nn.Module):
    """Rows look at words through some layers, then a linear one."""

    def __init__(self, size: int, num_layers: int, ffn_mul: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([_Look(size, ffn_mul) for _ in range(num_layers)])
        self.output = nn.Linear(size, size)

    def forward(self, rows: torch.Tensor, words: torch.Tensor | None) -> torch.Tensor:
        """Return rows as they came in, `(num_rows, hidden_size)`; without words none are seen."""
        for block in self.blocks:
            rows = block(rows, words)
        refined: torch.Tensor = self.output(rows)
        return refined


class _Look(nn.Module):
    def __init__(self, size: int, ffn_mul: int) -> None:
        super().__init__()
        self.num_heads = size // _HEAD_DIM
        if self.num_heads == 0 or size % self.num_heads:
            raise ValueError(f"hidden_size {size} cannot be cut into heads of about {_HEAD_DIM}")
        self.joint = nn.Linear(size, 3 * size)
        self.out_proj = nn.Linear(size, size)
        self.norm_read = nn.LayerNorm(size)
        self.ffn = nn.Sequential(
            nn.Linear(size, size * ffn_mul),
            nn.GELU(),
            nn.Identity(),
            nn.Linear(size * ffn_mul, size),
        )
        self.norm_ffn = nn.LayerNorm(size)

    def forward(self, rows: torch.Tensor, words: torch.Tensor | None) -> torch.Tensor:
        seen = torch.zeros_like(rows) if words is None else self._seen(rows, words)
        rows = rows + self.out_proj(seen)
        refined: torch.Tensor = rows + self.norm_ffn(self.ffn(rows))
        return refined

    def _seen(self, rows: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Attend to words and to nothing: a key and a value of zeros stand beside them."""
        size = rows.shape[1]
        weight, bias = self.joint.weight, self.joint.bias
        q = nn.functional.linear(self.norm_read(rows), weight[:size], bias[:size])
        keys = nn.functional.linear(words, weight[size:], bias[size:])
        k, v = nn.functional.pad(keys, (0, 0, 0, 1)).chunk(2, dim=-1)
        q, k, v = (
            one.view(len(one), self.num_heads, size // self.num_heads).transpose(0, 1)
            for one in (q, k, v)
        )
        seen = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return seen.transpose(0, 1).reshape(len(rows), size)


class PairScorer(nn.Module):
    """Scores pairs for relations by a dot product, that one scaled, or that one with biases."""

    def __init__(self, kind: Scorer, size: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "dot_thresh":
            self.proj_thresh = two_layers_to(size, 2)
            self.proj_type = two_layers(size, size)
        elif kind == "dot_norm":
            self.dy_bias_type = two_layers_to(size, 1)
            self.dy_bias_rel = two_layers_to(size, 1)
            self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, pairs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_pairs, num_labels)` of rows that are `hidden_size` wide."""
        if self.kind == "dot":
            return pairs @ labels.T
        if self.kind == "dot_thresh":
            scale, shift = self.proj_thresh(labels).unbind(-1)
            scores: torch.Tensor = pairs @ self.proj_type(labels).T + shift
            return scores * nn.functional.softplus(scale)
        biases = self.dy_bias_rel(pairs) + self.dy_bias_type(labels).T
        biased: torch.Tensor = pairs @ labels.T + self.bias + biases
        return biased


def two_layers_to(size: int, out_size: int) -> nn.Sequential:
    """Return linear, ReLU, linear, of which the inner width is four times that of the input."""
    return nn.Sequential(
        nn.Linear(size, 4 * size), nn.ReLU(), nn.Identity(), nn.Linear(4 * size, out_size)
    )
