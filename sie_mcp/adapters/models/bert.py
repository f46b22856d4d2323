"""BERT over packed sequences: post-norm encoder with absolute positions and fused QKV.

Source: Devlin et al. 2018; tensor names and order of operations as in transformers' BertModel.
Relatives that compute the same with other parts left out or put in are rows in their own files.
"""

from functools import cache
from types import ModuleType

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.add_norm import Normed, add_norm
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.masks import Bias
from sie_mcp.adapters.layers.positions import positions_past
from sie_mcp.adapters.layers.project import project
from sie_mcp.adapters.layers.relative_bias import RelativeBias
from sie_mcp.adapters.layers.widen import widen_and_narrow
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS, fused


class Embeddings(nn.Module):
    """Word + position + token type, normalised, and widened where the table is narrower."""

    def __init__(
        self, config: Config, *, width: int, has_token_types: bool, padding_id: int | None
    ) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        num_types = config.get("type_vocab_size", 2)
        self.word = nn.Embedding(config["vocab_size"], width)
        self.position = nn.Embedding(config["max_position_embeddings"], width)
        self.token_type = nn.Embedding(num_types, width) if has_token_types else None
        self.norm = nn.LayerNorm(width, eps=config.get("layer_norm_eps", 1e-12))
        self.project = nn.Linear(width, hidden_size) if width != hidden_size else None
        self.padding_id = padding_id

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        kernels = usable("embeddings", self.word.weight, batch)
        if kernels is not None and batch.loras is None:
            return self._widened(self._in_one_pass(kernels, batch))
        x = self.word(batch.input_ids)
        if self.token_type is not None:
            # RoBERTa has one type, whatever a tokenizer says: no index can miss its table.
            has_one = self.token_type.num_embeddings == 1
            x = x + (self.token_type.weight if has_one else self.token_type(batch.token_type_ids))
        return self._widened(self.norm(x + self.position(self._positions(batch))))

    def _in_one_pass(self, kernels: ModuleType, batch: PackedBatch) -> torch.Tensor:
        types = None
        if self.token_type is not None:
            has_one = self.token_type.num_embeddings == 1
            type_ids = torch.zeros_like(batch.input_ids) if has_one else batch.token_type_ids
            types = (type_ids, self.token_type.weight)
        embedded: torch.Tensor = kernels.embedded(
            batch.input_ids,
            self.word.weight,
            (self.norm.weight, self.norm.bias, self.norm.eps),
            positions=(self._positions(batch), self.position.weight),
            types=types,
        )
        return embedded

    def _positions(self, batch: PackedBatch) -> torch.Tensor:
        if self.padding_id is None:
            return batch.position_ids
        return positions_past(self.padding_id, batch)

    def _widened(self, embedded: torch.Tensor) -> torch.Tensor:
        return embedded if self.project is None else self.project(embedded)


class Layer(nn.Module):
    """Attention and MLP, each followed by residual and norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden_size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.num_heads = config["num_attention_heads"]
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.up = nn.Linear(hidden_size, config["intermediate_size"])
        self.down = nn.Linear(config["intermediate_size"], hidden_size)
        self.mlp_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.act = config.get("hidden_act", "gelu")
        self.activation = activation(self.act)

    def forward(
        self,
        normed: Normed,
        batch: PackedBatch,
        bias: Bias | None = None,
        reader: nn.Module | None = None,
    ) -> Normed:
        """Return hidden states of the same shape; `reader` is the layer that reads them next."""
        x = normed.states
        qkv = project(x, self.qkv, batch, normed.eight)
        q, k, v = qkv.view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attention(q, k, v, batch, bias=bias).flatten(1)
        attended = project(attended, self.out, batch)
        x, eight = add_norm(x, attended, self.attention_norm, batch, self.up)
        made = widen_and_narrow(x, self.up, self.down, self.act, self.activation, batch, eight)
        return add_norm(x, made, self.mlp_norm, batch, reader)


class Bert(nn.Module):
    """Packed ids in, hidden states out.

    Args:
        config: Sizes, by BERT's names.
        embedding_size: Width of the tables where it is not the hidden size (ELECTRA).
        has_token_types: False in DistilBERT and MPNet.
        padding_id: Positions start past it (RoBERTa); None: at 0.
        has_relative_bias: The distance between tokens adds to every layer's scores (MPNet).
    """

    def __init__(
        self,
        config: Config,
        *,
        embedding_size: int | None = None,
        has_token_types: bool = True,
        padding_id: int | None = None,
        has_relative_bias: bool = False,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(
            config,
            width=embedding_size or config["hidden_size"],
            has_token_types=has_token_types,
            padding_id=padding_id,
        )
        num_heads = config["num_attention_heads"]
        self.relative_bias = RelativeBias(num_heads) if has_relative_bias else None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        normed = Normed(self.embeddings(batch))
        # Every layer asks for the same few lengths.
        bias = cache(self.relative_bias) if self.relative_bias is not None else None
        readers = [layer.qkv for layer in self.layers][1:]
        for layer, reader in zip(self.layers, (*readers, None), strict=True):
            normed = layer(normed, batch, bias, reader)
        return normed.states


_LAYER = r"encoder\.layer\.(\d+)\."
EMBEDDING_RENAMES = (
    (r"embeddings\.word_embeddings\.(.*)", r"embeddings.word.\1"),
    (r"embeddings\.position_embeddings\.(.*)", r"embeddings.position.\1"),
    (r"embeddings\.token_type_embeddings\.(.*)", r"embeddings.token_type.\1"),
    (r"embeddings\.LayerNorm\.(.*)", r"embeddings.norm.\1"),
)
RENAMES = (
    *EMBEDDING_RENAMES,
    *fused(_LAYER + r"attention\.self\.", ("query", "key", "value"), r"layers.\1.qkv"),
    (_LAYER + r"attention\.output\.dense\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"attention\.output\.LayerNorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"intermediate\.dense\.(.*)", r"layers.\1.up.\2"),
    (_LAYER + r"output\.dense\.(.*)", r"layers.\1.down.\2"),
    (_LAYER + r"output\.LayerNorm\.(.*)", r"layers.\1.mlp_norm.\2"),
)
_HEADS = {
    "sparse": vocabulary_head(
        dense=r"cls\.predictions\.transform\.dense",
        norm=r"cls\.predictions\.transform\.LayerNorm",
        decoder=r"cls\.predictions\.decoder",
        bias=r"cls\.predictions\.bias",
    ),
    "cross_encoder": classifier_head(dense=r"(?:bert\.)?pooler\.dense"),
    "token_classification": TOKEN_HEAD,
}

ARCHITECTURE = Architecture(
    records=True,
    build=Bert,
    renames=RENAMES,
    prefixes=("bert.", *WRAPPERS),
    ignored=(r".*position_ids", r"pooler\..*", r"cls\..*", r"classifier\..*"),
    heads=_HEADS,
)
