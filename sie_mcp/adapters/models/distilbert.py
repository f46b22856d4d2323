"""DistilBERT: BERT without token types and pooler, under names of its own.

Source: Sanh et al. 2019; tensor names as in transformers' DistilBertModel. Sinusoidal positions are
stored in the checkpoint like learned ones.
"""

from torch import nn

from sie_mcp.adapters.model import Architecture, Config, Head
from sie_mcp.adapters.models.bert import (
    EMBEDDING_RENAMES,
    TOKEN_HEAD,
    WORD_TABLE,
    WRAPPERS,
    Bert,
    MaskedLanguageHead,
    PooledClassifier,
)


def _build(config: Config) -> nn.Module:
    return Bert(config, has_token_types=False)


_LAYER = r"transformer\.layer\.(\d+)\."
_RENAMES = (
    *EMBEDDING_RENAMES,
    (_LAYER + r"attention\.q_lin\.(.*)", r"layers.\1.qkv.\2#0"),
    (_LAYER + r"attention\.k_lin\.(.*)", r"layers.\1.qkv.\2#1"),
    (_LAYER + r"attention\.v_lin\.(.*)", r"layers.\1.qkv.\2#2"),
    (_LAYER + r"attention\.out_lin\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"sa_layer_norm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"ffn\.lin1\.(.*)", r"layers.\1.up.\2"),
    (_LAYER + r"ffn\.lin2\.(.*)", r"layers.\1.down.\2"),
    (_LAYER + r"output_layer_norm\.(.*)", r"layers.\1.mlp_norm.\2"),
)
_HEADS = {
    "sparse": Head(
        build=lambda config, _: MaskedLanguageHead(config),
        renames=(
            (r"vocab_transform\.(.*)", r"transform.\1"),
            (r"vocab_layer_norm\.(.*)", r"norm.\1"),
            (r"vocab_projector\.(.*)", r"decoder.\1"),
        ),
        tied={"decoder.weight": WORD_TABLE},
    ),
    "cross_encoder": Head(
        build=lambda config, num_labels: PooledClassifier(config, num_labels, act="relu"),
        renames=(
            (r"pre_classifier\.(.*)", r"dense.\1"),
            (r"classifier\.(.*)", r"classifier.\1"),
        ),
    ),
    "token_classification": TOKEN_HEAD,
}

ARCHITECTURE = Architecture(
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
