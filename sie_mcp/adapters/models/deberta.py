"""DeBERTa-v2 and -v3 over packed sequences: BERT whose attention also reads distances.

Source: He et al. 2021; tensor names and settings as in transformers' DebertaV2Model. The two
versions differ in their settings alone; the convolution of the largest v2 models is refused.
"""

import torch
from torch import nn
from torch.nn import functional

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.disentangled import disentangled_attention
from sie_mcp.adapters.layers.distances import Distances, DistanceTable
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.bert import EMBEDDING_RENAMES
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.adapters.models.settings import require
from sie_mcp.errors import ModelLoadFailed

_TERMS = ("c2p", "p2c")


class Embeddings(nn.Module):
    """Word vectors, with positions and token types where the checkpoint has them; normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden_size, num_types = config["hidden_size"], config.get("type_vocab_size", 0)
        self.word = nn.Embedding(config["vocab_size"], hidden_size)
        self.position = (
            nn.Embedding(config["max_position_embeddings"], hidden_size)
            if config.get("position_biased_input", True)
            else None
        )
        self.token_type = nn.Embedding(num_types, hidden_size) if num_types else None
        self.norm = _norm(config)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_tokens, hidden_size)`."""
        x = self.word(batch.input_ids)
        if self.position is not None:
            x = x + self.position(batch.position_ids)
        if self.token_type is not None:
            x = x + self.token_type(batch.token_type_ids)
        embedded: torch.Tensor = self.norm(x)
        return embedded


class Layer(nn.Module):
    """Attention and MLP, each followed by residual and norm."""

    def __init__(self, config: Config, terms: frozenset[str]) -> None:
        super().__init__()
        hidden_size, shares = config["hidden_size"], config.get("share_att_key", False)
        self.num_heads = config["num_attention_heads"]
        self.terms = terms
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.distance_projections = nn.ModuleDict(
            {} if shares else {term: nn.Linear(hidden_size, hidden_size) for term in sorted(terms)}
        )
        self.out = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = _norm(config)
        self.up = nn.Linear(hidden_size, config["intermediate_size"])
        self.down = nn.Linear(config["intermediate_size"], hidden_size)
        self.mlp_norm = _norm(config)
        self.activation = activation(config.get("hidden_act", "gelu"))

    def forward(
        self, x: torch.Tensor, batch: PackedBatch, distances: Distances, table: torch.Tensor
    ) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`; table is `(num_rows, hidden_size)`."""
        q, k, v = self.qkv(x).view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = disentangled_attention(
            q,
            k,
            v,
            batch,
            distances=distances,
            distance_keys=self._project(table, "c2p"),
            distance_queries=self._project(table, "p2c"),
        )
        x = self.attention_norm(x + self.out(attended.flatten(1)))
        normed: torch.Tensor = self.mlp_norm(x + self.down(self.activation(self.up(x))))
        return normed

    def _project(self, table: torch.Tensor, term: str) -> torch.Tensor | None:
        """Return the rows as keys (c2p) or queries (p2c), `(num_rows, num_heads, head_dim)`."""
        if term not in self.terms:
            return None
        if term in self.distance_projections:
            projected = self.distance_projections[term](table)
        else:  # With the content's own projection.
            part = 0 if term == "p2c" else 1
            weights, biases = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
            projected = functional.linear(table, weights[part], biases[part])
        rows: torch.Tensor = projected.view(len(table), self.num_heads, -1)
        return rows


class Deberta(nn.Module):
    """Packed ids in, hidden states out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        _check(config)
        terms = _terms(config)
        self.embeddings = Embeddings(config)
        self.distance_table = _distance_table(config)
        self.distances = nn.Embedding(2 * self.distance_table.reach, config["hidden_size"])
        self.distance_norm = _norm(config) if _normalises_distances(config) else None
        self.layers = nn.ModuleList(
            Layer(config, terms) for _ in range(config["num_hidden_layers"])
        )

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return hidden states `(num_tokens, hidden_size)`."""
        x: torch.Tensor = self.embeddings(batch)
        distances = Distances(self.distance_table, batch.max_seqlen, x.device)
        table: torch.Tensor = self.distances.weight[distances.used]
        if self.distance_norm is not None:
            table = self.distance_norm(table)
        for layer in self.layers:
            x = layer(x, batch, distances, table)
        return x


def _norm(config: Config) -> nn.LayerNorm:
    return nn.LayerNorm(config["hidden_size"], eps=config.get("layer_norm_eps", 1e-7))


def _check(config: Config) -> None:
    """Refuse what the reference can also do."""
    hidden_size = config["hidden_size"]
    served = {
        "attention_head_size": (hidden_size // config["num_attention_heads"],),
        "conv_kernel_size": (0, None),
        "embedding_size": (hidden_size,),
        "pooler_hidden_size": (hidden_size,),
        "relative_attention": (True,),
    }
    require({"relative_attention": False, **config}, served)


def _terms(config: Config) -> frozenset[str]:
    """Return which sides meet distances: content to position, position to content, or both."""
    given = config.get("pos_att_type") or ()
    if isinstance(given, str):
        given = [part.strip() for part in given.lower().split("|")]
    if not given or not set(given) <= set(_TERMS):
        raise ModelLoadFailed(
            f"config.json: pos_att_type {config.get('pos_att_type')!r} is not supported; "
            f"supported: {', '.join(_TERMS)}, or both"
        )
    return frozenset(given)


def _distance_table(config: Config) -> DistanceTable:
    farthest = config.get("max_relative_positions", -1)
    farthest = farthest if farthest > 0 else config["max_position_embeddings"]
    num_buckets = config.get("position_buckets", -1)
    if num_buckets > 0:
        return DistanceTable(reach=num_buckets, max_distance=farthest)
    return DistanceTable(reach=farthest)


def _normalises_distances(config: Config) -> bool:
    kinds = {part.strip() for part in config.get("norm_rel_ebd", "none").lower().split("|")}
    if not kinds <= {"none", "layer_norm"}:
        raise ModelLoadFailed(
            f"config.json: norm_rel_ebd {config['norm_rel_ebd']!r} is not supported; "
            "supported: none, layer_norm"
        )
    return "layer_norm" in kinds


def _classifier_act(config: Config) -> str:
    act: str = config.get("pooler_hidden_act", "gelu")
    return act


_LAYER = r"encoder\.layer\.(\d+)\."
_SELF = _LAYER + r"attention\.self\."

ARCHITECTURE = Architecture(
    build=Deberta,
    renames=(
        *EMBEDDING_RENAMES,
        (r"encoder\.rel_embeddings\.(.*)", r"distances.\1"),
        (r"encoder\.LayerNorm\.(.*)", r"distance_norm.\1"),
        *fused(_SELF, ("query_proj", "key_proj", "value_proj"), r"layers.\1.qkv"),
        (_SELF + r"pos_key_proj\.(.*)", r"layers.\1.distance_projections.c2p.\2"),
        (_SELF + r"pos_query_proj\.(.*)", r"layers.\1.distance_projections.p2c.\2"),
        (_LAYER + r"attention\.output\.dense\.(.*)", r"layers.\1.out.\2"),
        (_LAYER + r"attention\.output\.LayerNorm\.(.*)", r"layers.\1.attention_norm.\2"),
        (_LAYER + r"intermediate\.dense\.(.*)", r"layers.\1.up.\2"),
        (_LAYER + r"output\.dense\.(.*)", r"layers.\1.down.\2"),
        (_LAYER + r"output\.LayerNorm\.(.*)", r"layers.\1.mlp_norm.\2"),
    ),
    prefixes=("deberta.", *WRAPPERS),
    # Projections of queries and keys project distances too, which belong to no text.
    serves_lora=False,
    ignored=(
        r".*position_ids",
        r"pooler\..*",
        r"classifier\..*",
        r"cls\..*",
        r"(?:lm|mask)_predictions\..*",
    ),
    heads={
        # Two spellings of one head: transformers' own, and since "legacy": false the authors'.
        "sparse": vocabulary_head(
            dense=r"(?:cls\.predictions\.transform|lm_predictions\.lm_head)\.dense",
            norm=r"(?:cls\.predictions\.transform|lm_predictions\.lm_head)\.LayerNorm",
            decoder=r"cls\.predictions\.decoder",
            bias=r"(?:cls\.predictions|lm_predictions\.lm_head)\.bias",
        ),
        "cross_encoder": classifier_head(dense=r"pooler\.dense", act=_classifier_act),
        "token_classification": TOKEN_HEAD,
    },
)
