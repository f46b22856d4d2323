"""BERT with rotary positions over packed sequences: what NomicBERT, GTE and Jina v3 share.

Post-norm layers as BERT's; the families differ in biases and in the MLP, which they bring along.
"""

from collections.abc import Sequence

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.add_norm import Normed, add_norm
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.gated import GatedMlp, run_mlp
from sie_mcp.adapters.layers.project import project
from sie_mcp.adapters.layers.rotary import Turns, read_rotary, rotate
from sie_mcp.adapters.model import Config


class Embeddings(nn.Module):
    """Word + token type, normalised: positions come in as rotations, or as distances."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden_size, num_types = config["hidden_size"], config.get("type_vocab_size", 2)
        self.word = nn.Embedding(config["vocab_size"], hidden_size)
        self.token_type = nn.Embedding(num_types, hidden_size) if num_types else None
        self.norm = nn.LayerNorm(hidden_size, eps=config.get("layer_norm_eps", 1e-12))

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids)
        if self.token_type is not None:
            # Where there is one type, a pair's second text has it too, whatever a tokenizer says.
            has_one = self.token_type.num_embeddings == 1
            types = torch.zeros_like(batch.input_ids) if has_one else batch.token_type_ids
            # Looked up, even where there is one: Jina's adapters change this table too.
            x = x + self.token_type(types)
        embedded: torch.Tensor = self.norm(x)
        return embedded


class Layer(nn.Module):
    """Attention and MLP, each followed by residual and norm."""

    def __init__(self, config: Config, mlp: nn.Module, *, has_bias: bool) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.num_heads = config["num_attention_heads"]
        width = self.num_heads * (config.get("head_dim") or hidden_size // self.num_heads)
        self.qkv = nn.Linear(hidden_size, 3 * width, bias=has_bias)
        self.out = nn.Linear(width, hidden_size, bias=has_bias)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.mlp = mlp
        self.mlp_norm = nn.LayerNorm(hidden_size, eps=eps)

    def forward(
        self, normed: Normed, batch: PackedBatch, turns: Turns, reader: nn.Module | None = None
    ) -> Normed:
        """Return hidden states of the same shape; `reader` is the layer that reads them next."""
        x = normed.states
        qkv = project(x, self.qkv, batch, normed.eight)
        q, k, v = qkv.view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attention(rotate(q, turns, batch), rotate(k, turns, batch), v, batch).flatten(1)
        up = self.mlp.up if isinstance(self.mlp, GatedMlp) else None
        attended = project(attended, self.out, batch)
        x, eight = add_norm(x, attended, self.attention_norm, batch, up)
        return add_norm(x, run_mlp(self.mlp, x, batch, eight), self.mlp_norm, batch, reader)


class RotaryBert(nn.Module):
    """Packed ids in, hidden states out.

    Args:
        config: Sizes, by BERT's names.
        theta: Of the rotary positions, where config.json has no rope_parameters.
        mlps: One a layer.
        has_bias: Of the attention's projections.
    """

    def __init__(
        self, config: Config, *, theta: float, mlps: Sequence[nn.Module], has_bias: bool
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.rotary = read_rotary(config, theta=theta)
        self.layers = nn.ModuleList(Layer(config, mlp, has_bias=has_bias) for mlp in mlps)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        normed = Normed(self.embeddings(batch))
        turns = self.rotary.turns(batch)
        readers = [layer.qkv for layer in self.layers][1:]
        for layer, reader in zip(self.layers, (*readers, None), strict=True):
            normed = layer(normed, batch, turns, reader)
        return normed.states
