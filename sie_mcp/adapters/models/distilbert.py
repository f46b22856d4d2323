"""DistilBERT: BERT without token types and pooler, under names of its own.

Source: Sanh et al. 2019; tensor names as in transformers' DistilBertModel. Sinusoidal positions are
stored in the checkpoint like learned ones.
"""

from torch import nn

from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.bert import EMBEDDING_RENAMES, Bert
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS, fused


def _build(config: Config) -> nn.Module:
    return Bert(config, has_token_types=False)


_LAYER = r"transformer\.layer\.(\d+)\."
_RENAMES = (
    *EMBEDDING_RENAMES,
    *fused(_LAYER + r"attention\.", ("q_lin", "k_lin", "v_lin"), r"layers.\1.qkv"),
    (_LAYER + r"attention\.out_lin\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"sa_layer_norm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"ffn\.lin1\.(.*)", r"layers.\1.up.\2"),
    (_LAYER + r"ffn\.lin2\.(.*)", r"layers.\1.down.\2"),
    (_LAYER + r"output_layer_norm\.(.*)", r"layers.\1.mlp_norm.\2"),
)
_HEADS = {
    "sparse": vocabulary_head(
        dense="vocab_transform", norm="vocab_layer_norm", decoder="vocab_projector"
    ),
    "cross_encoder": classifier_head(dense="pre_classifier", act=lambda _: "relu"),
    "token_classification": TOKEN_HEAD,
}

ARCHITECTURE = Architecture(
    records=True,
    build=_build,
    renames=_RENAMES,
    prefixes=("distilbert.", *WRAPPERS),
    ignored=(r".*position_ids", r"vocab_.*", r"pre_classifier\..*", r"classifier\..*"),
    heads=_HEADS,
    config_names={
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
    },
)
