"""What GLiNER puts on an encoder: vectors of spans and labels, or a scorer of single words.

Everything is computed in blocks of words, so that no intermediate tensor outgrows the workspace.
Source: Zaratiana et al. 2023; formulas and tensor names as in the gliner package's span_rep.py and
scorers.py.
"""

import torch
from torch import nn

from sie_mcp.adapters.gliner.rule import GlinerRule

# Of a block's intermediate tensors, about.
MAX_WORKSPACE_BYTES = 64 * 1024**2


def two_layers(size: int, out_size: int, widening: int = 4) -> nn.Sequential:
    """Return linear, ReLU, linear; numbered as where dropout stands between."""
    inner = out_size * widening
    return nn.Sequential(
        nn.Linear(size, inner), nn.ReLU(), nn.Identity(), nn.Linear(inner, out_size)
    )


class SpanVectors(nn.Module):
    """A vector of each span from its first and last word, and in one mode the mean of all words."""

    def __init__(self, rule: GlinerRule) -> None:
        super().__init__()
        size = rule.hidden_size
        self.max_width = rule.max_width
        widening = 2 if rule.span_mode == "marker" else 4
        self.project_start = two_layers(size, size, widening)
        self.project_end = two_layers(size, size, widening)
        self.reads_means = rule.span_mode == "markerV1"
        num_parts = 3 if self.reads_means else 2
        self.out_project: nn.Module = (
            nn.Linear(2 * size, size)
            if rule.span_mode == "marker"
            else two_layers(num_parts * size, size)
        )

    def forward(
        self, words: torch.Tensor, ends: torch.Tensor, means: torch.Tensor | None
    ) -> torch.Tensor:
        """Return `(num_starts, max_width, hidden_size)`.

        Args:
            words: `(num_words, hidden_size)`, the starts first.
            ends: int64 `(num_starts, max_width)`, the last word of each span, a row of `words`.
            means: `(num_starts, hidden_size)`, of all words of the start's text.
        """
        first = self.project_start(words[: len(ends)]).unsqueeze(1).expand(-1, self.max_width, -1)
        if means is not None:
            means = means.unsqueeze(1).expand_as(first)
        return self._join(first, self.project_end(words)[ends], means)

    def of(
        self, firsts: torch.Tensor, lasts: torch.Tensor, means: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the vectors of single spans, all arguments and the result `(…, hidden_size)`."""
        return self._join(self.project_start(firsts), self.project_end(lasts), means)

    def _join(
        self, firsts: torch.Tensor, lasts: torch.Tensor, means: torch.Tensor | None
    ) -> torch.Tensor:
        parts = [firsts, lasts] if means is None else [firsts, lasts, means]
        spans: torch.Tensor = self.out_project(torch.cat(parts, dim=-1).relu())
        return spans


class WordScorer(nn.Module):
    """Judges a word for a label: whether an entity starts, ends, or goes on there."""

    def __init__(self, rule: GlinerRule) -> None:
        super().__init__()
        size = rule.hidden_size
        self.proj_token = nn.Linear(size, 2 * size)
        self.proj_label = nn.Linear(size, 2 * size)
        self.out_mlp = nn.Sequential(
            nn.Linear(3 * size, 4 * size), nn.Identity(), nn.ReLU(), nn.Linear(4 * size, 3)
        )

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_words, num_labels, 3)`.

        Args:
            words: `(num_words, hidden_size)`.
            labels: `(num_words, num_labels, 2 * hidden_size)`, projected, of each word's text.
        """
        own, met = self.proj_token(words).unsqueeze(1).expand(-1, labels.shape[1], -1).chunk(2, -1)
        name, meets = labels.chunk(2, -1)
        logits: torch.Tensor = self.out_mlp(torch.cat([own, name, met * meets], dim=-1))
        return logits


def words_per_block(row_bytes: int) -> int:
    """Return how many words are computed at once, of which each needs so many bytes."""
    return max(MAX_WORKSPACE_BYTES // max(row_bytes, 1), 1)
