"""BERT over packed sequences: post-norm encoder with absolute positions and fused QKV.

Source: Devlin et al. 2018; tensor names and order of operations as in transformers' BertModel.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.attention import attention


class Embeddings(nn.Module):
    """Word + position + token type, normalised."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        self.word = nn.Embedding(config["vocab_size"], hidden_size)
        self.position = nn.Embedding(config["max_position_embeddings"], hidden_size)
        self.token_type = nn.Embedding(config.get("type_vocab_size", 2), hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=config.get("layer_norm_eps", 1e-12))

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids) + self.token_type(batch.token_type_ids)
        embedded: torch.Tensor = self.norm(x + self.position(batch.position_ids))
        return embedded


class Layer(nn.Module):
    """Attention and MLP, each followed by residual and norm."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.num_heads = config["num_attention_heads"]
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.up = nn.Linear(hidden_size, config["intermediate_size"])
        self.down = nn.Linear(config["intermediate_size"], hidden_size)
        self.mlp_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.activation = activation(config.get("hidden_act", "gelu"))

    def forward(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states of the same shape, `(num_tokens, hidden_size)`."""
        q, k, v = self.qkv(x).view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attention(q, k, v, batch).flatten(1)
        x = self.attention_norm(x + self.out(attended))
        widened = self.activation(self.up(x))
        normed: torch.Tensor = self.mlp_norm(x + self.down(widened))
        return normed


class Bert(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x: torch.Tensor = self.embeddings(batch)
        for layer in self.layers:
            x = layer(x, batch)
        return x


class MaskedLanguageHead(nn.Module):
    """From hidden states to vocabulary logits; the decoder is the word embedding table."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        self.transform = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=config.get("layer_norm_eps", 1e-12))
        self.decoder = nn.Linear(hidden_size, config["vocab_size"])
        self.activation = activation(config.get("hidden_act", "gelu"))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_rows, vocab_size)`."""
        logits: torch.Tensor = self.decoder(
            self.norm(self.activation(self.transform(hidden_states)))
        )
        return logits


class PooledClassifier(nn.Module):
    """Dense and tanh on the first token, then the classifier: BertForSequenceClassification."""

    def __init__(self, config: Mapping[str, Any], num_labels: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config["hidden_size"], config["hidden_size"])
        self.classifier = nn.Linear(config["hidden_size"], num_labels)

    def forward(self, first: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_seqs, num_labels)` from first-token states `(num_seqs, hidden)`."""
        logits: torch.Tensor = self.classifier(torch.tanh(self.dense(first)))
        return logits


class TokenClassifier(nn.Linear):
    """One linear layer on every token: BertForTokenClassification."""

    def __init__(self, config: Mapping[str, Any], num_labels: int) -> None:
        super().__init__(config["hidden_size"], num_labels)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Linear's own name
        """Return logits `(num_tokens, num_labels)`."""
        return functional.linear(input, self.weight, self.bias)
