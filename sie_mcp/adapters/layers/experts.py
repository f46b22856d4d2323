"""A mixture of experts: many MLPs, of which a router picks a few for each token.

Sources: Shazeer et al. 2017; fused weights as in MegaBlocks, Gale et al. 2022; probabilities over
all experts, and the bias once, as in text-embeddings-inference's nomic.rs. Nothing is dropped: an
expert takes as many tokens as the router sends.
"""

import torch
from torch import nn

from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.wide_linear import WideLinear


class Experts(nn.Module):
    """The sum of each token's best experts by their probabilities, which need not add up to one.

    `up` and `down` hold all experts' rows one after the other, `(num_experts * intermediate_size,
    hidden_size)`; `down` is multiplied from the right.
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, act: str, *, num_experts: int, top_k: int
    ) -> None:
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.router = WideLinear(hidden_size, num_experts, bias=False)
        self.up = nn.Parameter(torch.empty(num_experts * intermediate_size, hidden_size))
        self.down = nn.Parameter(torch.empty(num_experts * intermediate_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(hidden_size))
        self.activation = activation(act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the shape of x, `(num_tokens, hidden_size)`; waits once, for the counts."""
        weights, chosen = self.router(x).softmax(dim=-1).topk(self.top_k, dim=-1)
        # Tokens of one expert lie together; each stands there once for every expert it has.
        places, order = chosen.flatten().sort(stable=True)
        experts = torch.arange(self.num_experts, device=x.device)
        ends = torch.searchsorted(places, experts, right=True).tolist()
        sent = x[order // self.top_k].tensor_split(ends[:-1])
        up, down = self.up.chunk(self.num_experts), self.down.chunk(self.num_experts)
        answers = torch.cat(
            [
                self.activation(tokens @ widen.t()) @ narrow
                for tokens, widen, narrow in zip(sent, up, down, strict=True)
            ]
        )
        # Put back in place, not added up in place: sums come out the same in every run.
        back = torch.empty_like(answers)
        back[order] = answers
        summed = (back.view(len(x), self.top_k, -1) * weights[..., None]).sum(dim=1)
        mixed: torch.Tensor = summed.to(x.dtype) + self.bias
        return mixed
