"""NomicBERT with experts written out, padded and one expert at a time: transformers has none.

After Nussbaum & Duderstadt 2025 and the tensors of nomic-embed-text-v2-moe; nothing of ours in it.
"""

import math
from types import SimpleNamespace

import torch
from torch import nn


class NomicMoe(nn.Module):
    """Every parameter has the name that the authors' checkpoint gives it."""

    def __init__(self, config):
        super().__init__()
        width, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.config = SimpleNamespace(pad_token_id=config.get("pad_token_id", 1))
        self.theta = config["rotary_emb_base"]
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(config["vocab_size"], width)
        self.embeddings.token_type_embeddings = nn.Embedding(config["type_vocab_size"], width)
        self.emb_ln = nn.LayerNorm(width, eps=eps)
        self.encoder = nn.Module()
        every = config["moe_every_n_layers"]
        self.encoder.layers = nn.ModuleList(
            Block(config, has_experts=place % every == 1) for place in range(config["n_layer"])
        )
        for name, parameter in self.named_parameters():
            spread = 1.0 if "router" in name else 0.2
            center = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            nn.init.normal_(parameter, center, 0.1 if "norm" in name else spread)

    def forward(self, input_ids, attention_mask):
        x = self.embeddings.word_embeddings(input_ids)
        x = self.emb_ln(x + self.embeddings.token_type_embeddings.weight[0])
        hidden = attention_mask[:, None, None, :] == 0
        for block in self.encoder.layers:
            x = block(x, hidden, self.theta)
        return SimpleNamespace(last_hidden_state=x)


class Block(nn.Module):
    def __init__(self, config, *, has_experts):
        super().__init__()
        width, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.num_heads = config["n_head"]
        self.attn = nn.Module()
        self.attn.Wqkv = nn.Linear(width, 3 * width, bias=config["qkv_proj_bias"])
        self.attn.out_proj = nn.Linear(width, width, bias=config["qkv_proj_bias"])
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.mlp = Mixture(config) if has_experts else Plain(config)
        self.norm2 = nn.LayerNorm(width, eps=eps)

    def forward(self, x, hidden, theta):
        num_seqs, length, width = x.shape
        parts = self.attn.Wqkv(x).reshape(num_seqs, length, 3, self.num_heads, -1)
        q, k, v = (parts[:, :, place].transpose(1, 2) for place in range(3))
        scores = turned(q, theta) @ turned(k, theta).transpose(2, 3) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(num_seqs, length, width)
        x = self.norm1(x + self.attn.out_proj(mixed))
        return self.norm2(x + self.mlp(x))


def turned(x, theta):
    """Multiply pairs (i, i + half) by e^(i place speed), as complex numbers."""
    half = x.shape[-1] // 2
    speeds = theta ** -(torch.arange(half) / half)
    turns = torch.polar(torch.ones(()), torch.arange(x.shape[2])[:, None] * speeds)
    pairs = torch.complex(x[..., :half], x[..., half:]) * turns
    return torch.cat((pairs.real, pairs.imag), -1)


class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config["n_embd"], config["n_inner"], bias=config["mlp_fc1_bias"])
        self.fc2 = nn.Linear(config["n_inner"], config["n_embd"], bias=config["mlp_fc2_bias"])

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


class Mixture(nn.Module):
    """All experts on all tokens; what the router did not pick weighs nothing."""

    def __init__(self, config):
        super().__init__()
        self.num_experts, self.top_k = config["num_experts"], config["moe_top_k"]
        rows = self.num_experts * config["n_inner"]
        self.router = nn.Module()
        self.router.layer = nn.Linear(config["n_embd"], self.num_experts, bias=False)
        self.experts = nn.Module()
        self.experts.mlp = nn.Module()
        self.experts.mlp.w1 = nn.Parameter(torch.empty(rows, config["n_embd"]))
        self.experts.mlp.w2 = nn.Parameter(torch.empty(rows, config["n_embd"]))
        self.experts.bias = nn.Parameter(torch.empty(config["n_embd"]))

    def forward(self, x):
        chances = self.router.layer(x).softmax(-1)
        least = chances.sort(-1, descending=True).values[..., self.top_k - 1, None]
        weights = torch.where(chances >= least, chances, 0.0)
        shape = (self.num_experts, -1, x.shape[-1])
        out = self.experts.bias.expand_as(x)
        for expert in range(self.num_experts):
            w1, w2 = (w.view(shape)[expert] for w in (self.experts.mlp.w1, self.experts.mlp.w2))
            out = out + weights[..., expert, None] * (gelu(x @ w1.T) @ w2)
        return out


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
